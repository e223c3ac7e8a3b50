"""What a container is made of, whole and in one place, so that it can be read what it never is.

Every field that gives rights is set here to a constant. What comes from a spec goes into fields
that hold plain values: the image's name, the command, the environment, the port, labels, limits.
There is no way from those to a privilege, a path of the host, a namespace of the host, a device or
the engine's socket.

The home is mounted at HOME, which is also the working directory. A command replaces the image's
entrypoint and command; without one the image decides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codehub.adapters.docker.labels import container_labels
from codehub.adapters.docker.probe import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.runtime import StartRequest
    from codehub.model.workspace import Resources

HOME: Final = "/home/workspace"
COPY_HOME: Final = "/h"
"""Where a home is for the engine's copy calls. What it is long, paths in the home cannot be."""
PIDS: Final = 4096
"""Processes and threads where the spec says nothing: room for any build, none for a fork bomb."""

CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""What root in a container needs to install packages (owners and modes of files), to drop to
another user, and to signal that user's processes when it is stopped. Images with a user of their
own get none of it. Low ports and ping need no capability in a container."""

_LOG: Final = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}
_HOSTNAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def container_config(
    request: StartRequest,
    *,
    hub_id: str,
    image: str,
    network: str,
    accident_labels: Mapping[str, str],
) -> dict[str, Any]:
    """The body of the engine's request to create the workspace's container."""
    port = f"{request.port}/tcp"
    return {
        "Image": image,
        "Hostname": request.name if _HOSTNAME.fullmatch(request.name) else "",
        **({"Entrypoint": list(request.command)} if request.command else {}),
        "Env": [f"{key}={value}" for key, value in environment(request).items()],
        "WorkingDir": HOME,
        "Labels": container_labels(hub_id, request),
        "ExposedPorts": {port: {}},
        "OpenStdin": False,
        "Tty": False,
        "HostConfig": {
            **_confinement(),
            **_limits(request.resources),
            "NetworkMode": network,
            "PortBindings": {port: [{"HostIp": HOST, "HostPort": ""}]},
            "Mounts": [_home(request.volume.name, HOME, accident_labels)],
        },
    }


def copy_config(
    *,
    image: str,
    labels: Mapping[str, str],
    volume: str,
    accident_labels: Mapping[str, str],
) -> dict[str, Any]:
    """The same for a container that holds a volume for copying, and that nothing can start."""
    return {
        "Image": image,
        "Entrypoint": ["never"],
        "Labels": dict(labels),
        "HostConfig": {
            **_confinement(),
            "CapAdd": [],
            "NetworkMode": "none",
            "Mounts": [_home(volume, COPY_HOME, accident_labels)],
        },
    }


def environment(request: StartRequest) -> dict[str, str]:
    """What the spec gives; what the hub sets, no spec overrides."""
    return {
        **request.env,
        "HOME": HOME,
        "PORT": str(request.port),
        "CODEHUB_BASE_PATH": request.base_path,
        "CODEHUB_WORKSPACE": request.name,
    }


def _confinement() -> dict[str, Any]:
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PublishAllPorts": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        # As process 1 a shell would ignore SIGTERM, and an IDE would collect dead children.
        "Init": True,
        "LogConfig": _LOG,
    }


def _limits(resources: Resources) -> dict[str, int]:
    limits = {"PidsLimit": resources.pids or PIDS}
    if resources.cpus is not None:
        limits["NanoCpus"] = round(resources.cpus * 1e9)
    if resources.memory_bytes is not None:
        # Both alike: no swap beyond the limit.
        limits |= {"Memory": resources.memory_bytes, "MemorySwap": resources.memory_bytes}
    return limits


def _home(volume: str, target: str, accident_labels: Mapping[str, str]) -> dict[str, Any]:
    """Without a copy of what the image has there: a home holds what its people put there."""
    return {
        "Type": "volume",
        "Source": volume,
        "Target": target,
        "VolumeOptions": {"NoCopy": True, "Labels": dict(accident_labels)},
    }
