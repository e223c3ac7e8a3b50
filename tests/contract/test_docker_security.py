"""Nothing in a spec reaches a privilege, the host's files or namespaces, or the engine's socket.

Hostile values go in everywhere at once; then the engine says what it made of them, and the
workspace itself says what it sees.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.docker.labels import HUB, NAME, OPERATION, WORKSPACE, container_name
from codehub.adapters.docker.recipe import CAPABILITIES, HOME, PIDS
from codehub.errors import ActionFailed, ImagePullFailed, NameConflict, VolumeInUse
from codehub.model.workspace import Resources
from tests.contract.docker_engine import busybox_image
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import (
    LONG,
    answers,
    eventually,
    leads,
    new_volume,
    request_for,
    started,
    text_of,
)

if TYPE_CHECKING:
    from codehub.model.runtime import StartRequest, VolumeRef
    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio

HOSTILE = (
    '"],"HostConfig":{"Privileged":true,"Binds":["/:/host"]},"x":["',
    "--privileged --pid=host -v /:/host -v /var/run/docker.sock:/var/run/docker.sock",
    "/var/run/docker.sock",
    "container:1",
    "host",
    "$(touch /pwned)`id`\n--privileged",
    "../../../etc/passwd",
    "%2e%2e/%2f?force=1&v=1#",
    "dev.codehub.hub=another",
)
HOSTILE_IMAGES = (
    None,
    "",
    "..",
    "a/../../containers/create",
    "./image",
    "/etc/passwd",
    "image//x",
    "image/",
    "image\nname",
    "image\x00",
    "--privileged image",
    "https://example.org/image",
    "UPPER/Case",
    "Upper/case",
    "image:tag:tag",
    "image@sha256:short",
    "x" * 300,
)


async def start_hostile(world: DockerWorld) -> tuple[DockerRuntime, StartRequest, dict[str, Any]]:
    """A running workspace with hostile values in every place, and what the engine says of it."""
    runtime = world.open()
    ref = await new_volume(runtime)
    everything = "|".join(HOSTILE)
    request = replace(
        request_for(world, ref, f"exec {world.serve}"),
        name=everything,
        template_digest=everything,
        base_path=everything,
        command=("sh", "-c", f"exec {world.serve}", *HOSTILE),
        env={f"HOSTILE_{number}": value for number, value in enumerate(HOSTILE)}
        | {"HOME": "/", "PORT": "1", "DOCKER_HOST": "unix:///var/run/docker.sock"},
    )
    await runtime.start(request, leads)
    return runtime, request, world.container(ref.workspace_id)


async def test_hostile_values_stay_values(docker_world: DockerWorld) -> None:
    runtime, request, made = await start_hostile(docker_world)
    assert await answers(await runtime.upstream(request.workspace_id))
    require_confined(docker_world, request, made)
    require_values(docker_world, request, made)


def require_confined(world: DockerWorld, request: StartRequest, made: dict[str, Any]) -> None:
    host = made["HostConfig"]

    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert sorted(each.removeprefix("CAP_") for each in host["CapAdd"]) == list(CAPABILITIES)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["IpcMode"], host["CgroupnsMode"]) == ("private", "private")
    for field in ("PidMode", "UTSMode", "UsernsMode", "Cgroup", "CgroupParent", "VolumeDriver"):
        assert not host[field], field
    for field in ("Binds", "Devices", "DeviceRequests", "DeviceCgroupRules", "VolumesFrom"):
        assert not host[field], field
    for field in ("Links", "ExtraHosts", "GroupAdd", "Dns", "Sysctls", "StorageOpt", "Tmpfs"):
        assert not host.get(field), field
    assert host["NetworkMode"] == world.bench.network
    assert list(made["NetworkSettings"]["Networks"]) == [world.bench.network]
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["PublishAllPorts"] is False
    assert host["PidsLimit"] == PIDS
    assert host["LogConfig"]["Config"] == {"max-size": "10m", "max-file": "3"}
    assert [(each["Type"], each["Name"], each["Destination"]) for each in made["Mounts"]] == [
        ("volume", request.volume.name, HOME)
    ]
    assert host["Mounts"][0]["VolumeOptions"]["NoCopy"] is True, "a home holds what is put there"


def require_values(world: DockerWorld, request: StartRequest, made: dict[str, Any]) -> None:
    """They arrive as they are, and override nothing that the hub sets."""
    env = dict(each.split("=", 1) for each in made["Config"]["Env"])
    labels = made["Config"]["Labels"]

    assert [env[f"HOSTILE_{number}"] for number in range(len(HOSTILE))] == list(HOSTILE)
    assert (env["HOME"], env["PORT"]) == (HOME, "8080")
    assert made["Config"]["WorkingDir"] == HOME
    assert made["Config"]["Hostname"] != request.name
    assert labels[HUB] == world.hub_id
    assert labels[NAME] == request.name
    assert made["Name"] == f"/{container_name(request.workspace_id)}"


async def test_a_workspace_sees_nothing_of_the_host(docker_world: DockerWorld) -> None:
    look = """
      grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status > $HOME/status
      cat /proc/self/mountinfo > $HOME/mounts
      ls /var/run /run /host > $HOME/run 2>&1
      ps > $HOME/processes
    """
    _, request = await started(docker_world, f"{look}\nexec {docker_world.serve}")
    read = docker_world.read

    status = await read(request.volume, "status") or ""
    bits = sum(1 << number for number in (0, 1, 3, 5, 6, 7))
    assert [int(line.split()[1], 16) for line in status.splitlines()] == [bits, bits, 1]
    mounts = await read(request.volume, "mounts") or ""
    assert "docker.sock" not in mounts
    assert HOME in mounts
    assert "docker.sock" not in (await read(request.volume, "run") or "")
    assert "dockerd" not in (await read(request.volume, "processes") or "")


@pytest.mark.parametrize("image", HOSTILE_IMAGES, ids=lambda image: repr(image)[:30])
async def test_what_is_no_name_of_an_image_is_refused(
    docker_world: DockerWorld, image: str | None
) -> None:
    runtime = docker_world.open()
    request = replace(request_for(docker_world, await new_volume(runtime), "true"), image=image)

    with pytest.raises(ImagePullFailed):
        await runtime.start(request, leads)

    assert (await runtime.list()).containers == ()


async def test_an_image_decides_nothing_of_the_hub_and_leaves_nothing(
    docker_world: DockerWorld,
) -> None:
    other = uuid4()
    changes = (
        f"LABEL {HUB}=another {WORKSPACE}={other} {OPERATION}={uuid4()}",
        "VOLUME /data",
        "EXPOSE 22",
        "ENV HOME=/elsewhere PORT=1",
        "WORKDIR /tmp",
        'ENTRYPOINT ["false"]',
    )
    with busybox_image(*changes) as image:
        docker_world.image = image
        runtime, request = await started(docker_world)
        made = docker_world.container(request.workspace_id)
        (container,) = (await runtime.list()).containers
        assert (container.workspace_id, container.op_id) == (request.workspace_id, request.op_id)

        await runtime.stop(request.workspace_id, LONG)

    bindings = [each for each in made["NetworkSettings"]["Ports"].values() if each]
    assert [[each["HostIp"] for each in bound] for bound in bindings] == [["127.0.0.1"]]
    declared = [each["Name"] for each in made["Mounts"] if each["Destination"] == "/data"]
    assert len(declared) == 1
    left = {each["Name"] for each in docker_world.client.volumes()["Volumes"]}
    assert declared[0] not in left
    assert request.volume.name in left


async def test_the_limits_of_a_spec_are_set(docker_world: DockerWorld) -> None:
    runtime = docker_world.open()
    request = replace(
        request_for(docker_world, await new_volume(runtime), f"exec {docker_world.serve}"),
        resources=Resources(cpus=0.5, memory_bytes=64 * 2**20, pids=50),
    )

    await runtime.start(request, leads)

    host = docker_world.container(request.workspace_id)["HostConfig"]
    assert (host["PidsLimit"], host["Memory"], host["NanoCpus"]) == (50, 64 * 2**20, 5 * 10**8)
    assert host["MemorySwap"] in (64 * 2**20, -1)


async def test_workspaces_of_a_hub_do_not_reach_each_other(docker_world: DockerWorld) -> None:
    """On the network that the hub makes itself, also after somebody has removed it."""
    runtime = docker_world.open(network=None)
    await runtime.claim(expects_data=True)
    docker_world.client.remove_network(f"codehub-{docker_world.hub_id}")
    one = request_for(docker_world, await new_volume(runtime), f"exec {docker_world.serve}")
    await runtime.start(one, leads)
    (network,) = docker_world.container(one.workspace_id)["NetworkSettings"]["Networks"].values()
    ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 1 {} 8080 > $HOME/{}"
    both = f"{ask.format(network['IPAddress'], 'other')}; {ask.format('127.0.0.1', 'itself')}"
    script = f"{docker_world.serve} & {both}; touch $HOME/asked; wait"
    two = request_for(docker_world, await new_volume(runtime), script)
    await runtime.start(two, leads)
    await eventually(lambda: _exists(docker_world, two.volume, "asked"), "it has asked")

    assert await docker_world.read(two.volume, "other") == ""
    assert "HTTP/1" in (await docker_world.read(two.volume, "itself") or "")


async def _exists(world: DockerWorld, ref: VolumeRef, name: str) -> bool:
    return await world.read(ref, name) is not None


@pytest.mark.parametrize("network", ["", "host", "none", "default", "container:abc"])
def test_no_setting_gives_workspaces_the_network_of_the_host_or_of_another(network: str) -> None:
    with pytest.raises(ValueError, match="network"):
        DockerRuntime("hub", network=network)


# ---- What is not ours stays as it is ----


async def test_a_foreign_container_with_our_name_is_a_conflict_and_stays(
    docker_world: DockerWorld,
) -> None:
    runtime = docker_world.open()
    ref = await new_volume(runtime)
    foreign = docker_world.foreign_container(container_name(ref.workspace_id))
    docker_world.client.start(foreign)

    with pytest.raises(NameConflict):
        await runtime.start(request_for(docker_world, ref, f"exec {docker_world.serve}"), leads)
    await runtime.stop(ref.workspace_id, LONG)

    assert docker_world.container(ref.workspace_id)["Id"] == foreign
    assert docker_world.container(ref.workspace_id)["State"]["Running"]
    assert (await runtime.list()).containers == ()
    assert await runtime.upstream(ref.workspace_id) is None
    assert await runtime.stats(ref.workspace_id) is None
    assert await text_of(runtime.logs(ref.workspace_id, lines=9, follow=False)) == ""


async def test_a_home_that_somebody_else_has_mounted_is_not_started_in(
    docker_world: DockerWorld,
) -> None:
    runtime = docker_world.open()
    ref = await new_volume(runtime)
    docker_world.foreign_container(
        f"guest-{uuid4()}", HostConfig={"Binds": [f"{ref.name}:/stolen"]}
    )

    with pytest.raises(VolumeInUse, match="guest-"):
        await runtime.start(request_for(docker_world, ref, f"exec {docker_world.serve}"), leads)

    assert (await runtime.list()).containers == ()


async def test_two_hubs_on_one_engine_see_nothing_of_each_other(docker_world: DockerWorld) -> None:
    runtime, request = await started(docker_world)
    stranger = DockerRuntime(f"{docker_world.hub_id}-2", network=docker_world.bench.network)
    try:
        await stranger.claim(expects_data=False)

        assert (await stranger.list()).containers == ()
        assert (await stranger.list()).volumes == ()
        await stranger.stop(request.workspace_id, LONG)
        with pytest.raises(NameConflict):
            await stranger.delete_volume(request.volume)
        with pytest.raises(NameConflict):
            await stranger.volume_path(request.volume)
    finally:
        await stranger.close()
        docker_world.client.remove_volume(f"codehub-{docker_world.hub_id}-2-marker")

    assert await answers(await runtime.upstream(request.workspace_id))


# ---- Secrets ----


async def test_secrets_are_not_in_what_the_engine_refuses(docker_world: DockerWorld) -> None:
    runtime = docker_world.open()
    ref = await new_volume(runtime)
    request = request_for(docker_world, ref, "true", env={"": "canary-91c2"})

    with pytest.raises(ActionFailed, match="invalid environment") as failure:
        await runtime.start(request, leads)

    error: BaseException | None = failure.value
    while error is not None:
        assert "canary-91c2" not in f"{error} {vars(error)}"
        error = error.__cause__
    assert (await runtime.list()).containers == ()


async def test_the_memory_limit_is_named_when_it_ended_a_start(docker_world: DockerWorld) -> None:
    runtime = docker_world.open()
    script = "tail /dev/zero; exit 9"
    request = replace(
        request_for(docker_world, await new_volume(runtime), script),
        resources=Resources(memory_bytes=32 * 2**20),
    )

    with pytest.raises(ActionFailed, match="lack of memory"):
        await runtime.start(request, leads)
