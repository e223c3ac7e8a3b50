"""Images: pulled where they are missing, and every way in which that fails told apart."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from docker.errors import NotFound

from codehub.adapters.docker.image import explain_pull, require_name
from codehub.core.deadline import AT, PULL, STAGE, START, deadline
from codehub.errors import ActionFailed, ImagePullFailed, Unreachable
from codehub.model.decision import Rules
from codehub.model.states import Operation
from codehub.model.workspace import Status
from tests.contract.docker_engine import busybox_image, busybox_root
from tests.contract.docker_proxy import Harm, asked, engine_proxy
from tests.contract.docker_registry import BASIC, Answer, registry
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import LONG, answers, eventually, leads, new_volume, request_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.contract.docker_registry import Registry
    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio


@pytest.fixture(name="store")
def provide_store() -> Iterator[Registry]:
    with registry() as running:
        yield running


async def start_image(world: DockerWorld, image: str, **options: Any) -> None:
    world.image = image
    runtime = world.open(**options)
    request = request_for(world, await new_volume(runtime), f"exec {world.serve}")
    await runtime.start(request, leads)


# ---- Pulls ----


async def test_a_missing_image_is_pulled_with_progress_and_started(
    docker_world: DockerWorld, store: Registry
) -> None:
    image = store.put("team/editor", busybox_root())
    told: list[tuple[UUID, Mapping[str, object]]] = []
    runtime = docker_world.open(report=lambda *each: told.append(each))
    docker_world.image = image
    request = request_for(docker_world, await new_volume(runtime), f"exec {docker_world.serve}")
    try:
        await runtime.start(request, leads)

        assert await answers(await runtime.upstream(request.workspace_id))
        await runtime.stop(request.workspace_id, LONG)
    finally:
        docker_world.client.remove_image(image, force=True)

    assert {each for each, _ in told} == {request.workspace_id}
    *pulling, ready = [progress for _, progress in told]
    assert {progress[STAGE] for progress in pulling} == {PULL}
    assert all(int(str(each["bytes"])) <= int(str(each["total"])) for each in pulling)
    assert ready[STAGE] == START


async def test_a_hub_whose_clock_is_behind_gives_a_start_its_whole_time(
    docker_world: DockerWorld, store: Registry
) -> None:
    """The pull took an hour, and the hub's clock is two behind Postgres's, which dates progress."""
    now = datetime.now(UTC)
    told: dict[str, object] = {}
    behind = docker_world.open(
        clock=lambda: now - timedelta(hours=2), report=lambda _, progress: told.update(progress)
    )
    docker_world.image = image = store.put("team/late", busybox_root())
    try:
        await behind.start(
            request_for(docker_world, await new_volume(behind), f"exec {docker_world.serve}"), leads
        )
    finally:
        docker_world.client.remove_image(image, force=True)

    starting = Status(
        operation=Operation.STARTING,
        op_started_at=now - timedelta(hours=1),
        op_progress={**told, AT: now.isoformat()},
    )
    assert deadline(starting, now, Rules()) == now + Rules().starting


async def test_an_image_that_is_there_is_not_asked_for(docker_world: DockerWorld) -> None:
    told: list[object] = []
    assert docker_world.image is not None

    await start_image(docker_world, docker_world.image, report=lambda *each: told.append(each))

    assert told == []


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (Answer(404, "MANIFEST_UNKNOWN"), ImagePullFailed, "was not found"),
        (Answer(404, "NAME_UNKNOWN"), ImagePullFailed, "was not found"),
        (Answer(401, "UNAUTHORIZED", BASIC), ImagePullFailed, "may not have it"),
        (Answer(403, "DENIED"), ImagePullFailed, "may not have it"),
        (Answer(429, "TOOMANYREQUESTS"), Unreachable, "gives no answer"),
        (Answer(503, "UNAVAILABLE"), Unreachable, "gives no answer"),
    ],
    ids=["no manifest", "no repository", "no login", "denied", "too often", "unavailable"],
)
async def test_what_a_registry_answers_is_told_apart(
    docker_world: DockerWorld,
    store: Registry,
    answer: Answer,
    error: type[Exception],
    words: str,
) -> None:
    image = store.refuse("team/editor", answer)

    with pytest.raises(error, match=words) as failure:
        await start_image(docker_world, image)

    assert image in str(failure.value)
    assert (await docker_world.open().list()).containers == ()


async def test_a_registry_that_is_not_there_is_unreachable(docker_world: DockerWorld) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        image = f"127.0.0.1:{nobody.getsockname()[1]}/team/editor:1"

        with pytest.raises(Unreachable, match="gives no answer"):
            await start_image(docker_world, image)


async def test_a_pull_that_breaks_off_is_unknown(
    docker_world: DockerWorld, store: Registry
) -> None:
    image = store.put(f"team/{uuid4()}", busybox_root())
    with engine_proxy() as proxy:
        proxy.harm("POST", "/images/create", Harm.CUT)

        with pytest.raises(Unreachable):
            await start_image(docker_world, image, base_url=proxy.base_url)

    with pytest.raises(NotFound):
        docker_world.client.inspect_image(image)


async def test_a_pull_can_be_given_up(docker_world: DockerWorld) -> None:
    with engine_proxy() as proxy:
        proxy.harm("POST", "/images/create", Harm.HANG)
        image = f"127.0.0.1:1/{uuid4()}:1"
        pulling = asyncio.create_task(start_image(docker_world, image, base_url=proxy.base_url))
        await eventually(lambda: asked(proxy, "/images/create"), "it pulls")

        pulling.cancel()

        with pytest.raises(asyncio.CancelledError):
            await pulling


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("manifest for a/b:1 not found: manifest unknown", ImagePullFailed),
        (
            "pull access denied for a/b, repository does not exist or may need login",
            ImagePullFailed,
        ),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", ImagePullFailed),
        ("Get https://r.example/v2/: dial tcp: lookup r.example: no such host", Unreachable),
        ("Get https://r.example/v2/: net/http: TLS handshake timeout", Unreachable),
        ("Get https://r.example/v2/: x509: certificate signed by unknown authority", Unreachable),
        ("received unexpected HTTP status: 502 Bad Gateway", Unreachable),
        ("unexpected EOF", Unreachable),
        ("failed to register layer: write /x: no space left on device", ActionFailed),
        ("error parsing HTTP 403 response body: permission denied", ImagePullFailed),
        ("proxyconnect tcp: dial tcp 10.0.0.1:3128: connect: permission denied", Unreachable),
        ("toomanyrequests: retry after 1 s", Unreachable),
        ("something new", ActionFailed),
    ],
)
def test_the_engines_words_are_understood(said: str, error: type[Exception]) -> None:
    explained = explain_pull("a/b:1", said)

    assert type(explained) is error
    assert "a/b:1" in explained.message


NO_MANIFEST = "manifest for {name} not found: manifest unknown: manifest unknown"
NO_ACCESS = "pull access denied for {name}, repository does not exist or may require 'docker login'"
RESOLVE = 'failed to resolve reference "docker.io/{name}": docker.io/{name}: not found'
HEAD = 'Head "https://registry-1.docker.io/v2/{name}/manifests/1": '
SILENT_HEAD = HEAD + "net/http: request timeout"


@pytest.mark.parametrize(
    "name",
    [
        *("geofence", "acme/geofence:1", "acme/timeout-demo", "timeout", "eof:timeout"),
        *("timeout.example:5000/team/eof:1", "ghcr.io/x509/unreachable@sha256:" + "0" * 64),
    ],
)
def test_a_missing_image_is_missing_whatever_it_is_called(name: str) -> None:
    for said in (NO_MANIFEST, NO_ACCESS, RESOLVE, HEAD + "repository not found"):
        assert type(explain_pull(name, said.format(name=name))) is ImagePullFailed


@pytest.mark.parametrize(
    "name", ["denied", "acme/denied:1", "not-found.example/denied/forbidden", "timeout", "a"]
)
def test_a_registry_that_is_silent_is_so_whatever_the_image_is_called(name: str) -> None:
    host = name.partition("/")[0]
    for said in (SILENT_HEAD.format(name=name), f"dial tcp: lookup {host}: no such host", "EOF"):
        assert type(explain_pull(name, said)) is Unreachable


async def test_an_image_that_is_missing_and_named_like_a_silence(
    docker_world: DockerWorld, store: Registry
) -> None:
    image = store.refuse("acme/geofence-timeout", Answer(404, "MANIFEST_UNKNOWN"))

    with pytest.raises(ImagePullFailed, match="was not found"):
        await start_image(docker_world, image)


@pytest.mark.parametrize(
    "name",
    [
        "busybox",
        "codercom/code-server:4.107.1",
        "registry.example:5000/team/my_image__x/a-b.c:v1",
        "ghcr.io/a/b@sha256:" + "0" * 64,
        "a/b:1@sha256:" + "f" * 64,
        "localhost/x",
    ],
)
def test_names_of_images_are_accepted(name: str) -> None:
    assert require_name(name) == name


# ---- The user of an image ----


@pytest.mark.parametrize(
    ("user", "owner"),
    [("coder", "1234:2345"), ("4321", "4321:0"), ("coder:team", "1234:77")],
)
async def test_a_new_home_belongs_to_the_user_of_the_image(
    docker_world: DockerWorld, user: str, owner: str
) -> None:
    with busybox_image(f"USER {user}") as image:
        docker_world.image = image
        runtime = docker_world.open()
        script = f'echo "$(id -u):$(id -g)" > $HOME/me && exec {docker_world.serve}'
        request = request_for(docker_world, await new_volume(runtime), script)
        await runtime.start(request, leads)
        await runtime.stop(request.workspace_id, LONG)

    home = docker_world.home(request.volume)
    assert home is not None
    assert f"{home.stat().st_uid}:{home.stat().st_gid}" == owner
    assert await docker_world.read(request.volume, "me") == f"{owner}\n"


async def test_a_home_that_belongs_to_somebody_is_left_as_it_is(docker_world: DockerWorld) -> None:
    with busybox_image("USER coder") as image:
        docker_world.image = image
        runtime = docker_world.open()
        request = request_for(docker_world, await new_volume(runtime), f"exec {docker_world.serve}")
        home = docker_world.home(request.volume)
        assert home is not None
        os.chown(home, 777, 888)
        home.chmod(0o775)
        await runtime.start(request, leads)
        await runtime.stop(request.workspace_id, LONG)

    assert (home.stat().st_uid, home.stat().st_gid, home.stat().st_mode & 0o777) == (
        777,
        888,
        0o775,
    )


async def test_without_a_command_the_image_decides(docker_world: DockerWorld) -> None:
    entry = 'ENTRYPOINT ["sh", "-c", "echo entry $0 > $HOME/said; exec httpd -f -p $PORT"]'
    with busybox_image(entry, 'CMD ["cmd"]') as image:
        docker_world.image = image
        runtime = docker_world.open()
        request = request_for(docker_world, await new_volume(runtime), "")
        await runtime.start(replace(request, command=()), leads)
        await runtime.stop(request.workspace_id, LONG)

    assert await docker_world.read(request.volume, "said") == "entry cmd\n"
