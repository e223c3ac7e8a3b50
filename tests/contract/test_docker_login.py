"""Images of a private registry, with a login as `docker login` leaves it."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from codehub.errors import ImagePullFailed
from tests.contract.docker_engine import busybox_root
from tests.contract.docker_registry import registry
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import LONG, leads, new_volume, request_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio

LOGIN = ("hub", "a-password")


async def test_the_login_is_that_of_the_directory_which_docker_config_names(
    docker_world: DockerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's own `~/.docker` has none, as in a container whose home is empty."""
    home, config = tmp_path / "home", tmp_path / "config"
    home.mkdir()
    config.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    with registry() as private:
        private.login = LOGIN
        image = docker_world.image = private.put("team/editor", busybox_root())
        auth = {"auth": b64encode(":".join(LOGIN).encode()).decode()}
        (config / "config.json").write_text(json.dumps({"auths": {private.address: auth}}))
        runtime = docker_world.open()
        request = request_for(docker_world, await new_volume(runtime), f"exec {docker_world.serve}")

        with pytest.raises(ImagePullFailed, match="may not have it"):
            await runtime.start(request, leads)
        monkeypatch.setenv("DOCKER_CONFIG", str(config))
        try:
            await runtime.start(request, leads)
            await runtime.stop(request.workspace_id, LONG)
        finally:
            docker_world.client.remove_image(image, force=True)
