"""A home for the engine's copy calls: held by a container that is made and never started.

So a storage job reaches a home whose directory is not ours to read, for lack of the superuser's
rights or because the engine's files are not seen from here. The image is made here, with nothing in
it but the place for the home: nothing is pulled, nothing runs, and the workspace's own image need
not be there.

Such a container has a name that no workspace has and is no workspace's in the listing. It belongs
to one job. What a crash leaves of it is removed by whoever needs the volume next.
"""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from codehub.adapters.docker.labels import HUB, copy_labels, copy_name
from codehub.adapters.docker.recipe import COPY_HOME, copy_config
from codehub.adapters.docker.removal import remove
from codehub.errors import ActionFailed, CodeHubError, NameConflict
from codehub.model.runtime import NOT_MOUNTED, EngineCopy

if TYPE_CHECKING:
    import docker

    from codehub.adapters.docker.site import Site
    from codehub.model.runtime import VolumeRef

REPOSITORY: Final = "codehub-empty"


async def open_copy(site: Site, ref: VolumeRef) -> EngineCopy:
    """Hold the volume for copying; nobody else may have it."""
    await site.volumes.require(ref)
    await site.volumes.require_unused(ref)
    image = await _require_image(site)
    config = copy_config(
        image=image,
        labels=copy_labels(site.hub_id, ref),
        volume=ref.name,
        accident_labels=site.volumes.accident_labels(),
    )
    name = copy_name(ref, token_hex(4))
    made = await site.engine.act(lambda client: client.create_container_from_config(config, name))
    copy = EngineCopy(site.engine.base_url, str(made["Id"]), COPY_HOME)
    try:
        # One that has just gone would have been made anew, empty, by the engine.
        await site.volumes.require(ref)
    except CodeHubError:
        with suppress(CodeHubError):
            await close_copy(site, copy)
            await site.volumes.remove_accident(ref)
        raise
    return copy


async def close_copy(site: Site, copy: EngineCopy) -> None:
    """Let go of the volume; gone already is fine."""
    await remove(site.engine, copy.container)


async def _require_image(site: Site) -> str:
    """The id of the hub's empty image, made anew where somebody has pruned it."""
    name = f"{REPOSITORY}:{site.hub_id}"
    found = await site.engine.find(lambda client: client.inspect_image(name))
    if found is None:
        said = await site.engine.act(lambda client: _import(client, site.hub_id))
        found = await site.engine.find(lambda client: client.inspect_image(name))
    if found is None:
        raise ActionFailed(f"the Docker engine did not make the image {name}: {said.strip()}")
    if ((found.get("Config") or {}).get("Labels") or {}).get(HUB) != site.hub_id:
        raise NameConflict(
            f"an image {name} exists and is not this hub's, so it was not touched",
            hint="remove or rename it",
        )
    return str(found["Id"])


def _import(client: docker.APIClient, hub_id: str) -> str:
    """As the SDK does it, but with its time limit."""
    response = client._post(
        client._url("/images/create"),
        params={
            "fromSrc": "-",
            "repo": REPOSITORY,
            "tag": hub_id,
            "changes": [f"LABEL {HUB}={hub_id}"],
        },
        data=_root(),
        headers={"Content-Type": "application/tar"},
    )
    client._raise_for_status(response)
    return str(response.text)


def _root() -> bytes:
    """A root file system with the place for a home in it.

    The file there is seen by whoever looks where the engine has not mounted the volume: an archive
    of that place would be empty, and a restore to it would go with the container.
    """
    home = tarfile.TarInfo(COPY_HOME.removeprefix("/"))
    home.type, home.mode = tarfile.DIRTYPE, 0o755
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(home)
        archive.addfile(tarfile.TarInfo(f"{home.name}/{NOT_MOUNTED}"))
    return target.getvalue()
