"""Names and labels: how containers and volumes say whose they are, written here and read back.

A label alone proves nothing: whoever starts a container from an image that carries our labels has
them too. What counts as ours has the labels **and** the name that goes with them, and a name exists
once on an engine.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from codehub.model.runtime import ContainerSeen, Upstream, VolumeRef, VolumeSeen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codehub.model.runtime import StartRequest

HUB: Final = "dev.codehub.hub"
WORKSPACE: Final = "dev.codehub.workspace"
NAME: Final = "dev.codehub.name"
GENERATION: Final = "dev.codehub.generation"
OPERATION: Final = "dev.codehub.operation"
TEMPLATE: Final = "dev.codehub.template"
VOLUME: Final = "dev.codehub.volume"
ENGINE: Final = "dev.codehub.engine"
ACCIDENT: Final = "dev.codehub.accident"
COPY: Final = "dev.codehub.copy"

LOOPBACK: Final = "127.0.0.1"

RUNNING: Final = frozenset({"running", "paused"})
"""A paused container holds its volume and its port, and goes on: it runs."""

_EXITED: Final = re.compile(r"Exited \((\d+)\)")


def of_hub(hub_id: str) -> dict[str, list[str]]:
    """The filter that selects what is labelled as this hub's."""
    return {"label": [f"{HUB}={hub_id}"]}


def container_name(workspace_id: UUID) -> str:
    return f"ws-{workspace_id}"


def container_labels(hub_id: str, request: StartRequest) -> dict[str, str]:
    return {
        HUB: hub_id,
        WORKSPACE: str(request.workspace_id),
        NAME: request.name,
        GENERATION: str(request.volume.generation),
        OPERATION: str(request.op_id),
        TEMPLATE: request.template_digest,
        VOLUME: request.volume.name,
    }


def copy_name(ref: VolumeRef, token: str) -> str:
    """The name of a container that holds a volume for copying; new for each."""
    return f"{ref.name}-copy-{token}"


def copy_labels(hub_id: str, ref: VolumeRef) -> dict[str, str]:
    """No workspace is among them: nothing happens to it when such a container comes or goes."""
    return {HUB: hub_id, COPY: ref.name}


def is_copy_of(hub_id: str, ref: VolumeRef, entry: Mapping[str, Any]) -> bool:
    """Whether an entry of the engine's list of containers is one."""
    labelled = copy_labels(hub_id, ref).items() <= (entry.get("Labels") or {}).items()
    return labelled and any(
        name.startswith(f"/{copy_name(ref, '')}") for name in entry["Names"] or ()
    )


def volume_labels(hub_id: str, ref: VolumeRef) -> dict[str, str]:
    """The name tells people whose it is; it proves nothing, and may have changed since."""
    named = {NAME: ref.workspace_name} if ref.workspace_name else {}
    return {**_ownership(hub_id, ref), **named}


def is_container_of(hub_id: str, workspace_id: UUID, labels: Mapping[str, str] | None) -> bool:
    expected = {HUB: hub_id, WORKSPACE: str(workspace_id)}
    return expected.items() <= (labels or {}).items()


def is_volume_of(hub_id: str, ref: VolumeRef, labels: Mapping[str, str] | None) -> bool:
    return _ownership(hub_id, ref).items() <= (labels or {}).items()


def _ownership(hub_id: str, ref: VolumeRef) -> dict[str, str]:
    return {HUB: hub_id, WORKSPACE: str(ref.workspace_id), GENERATION: str(ref.generation)}


def read_container(entry: Mapping[str, Any]) -> ContainerSeen | None:
    """An entry of the engine's list of containers; None when its name is not its labels'.

    The list knows when a container was made; it is started right after.
    """
    labels = entry.get("Labels") or {}
    workspace_id = _uuid(labels.get(WORKSPACE))
    if workspace_id is None or f"/{container_name(workspace_id)}" not in (entry["Names"] or ()):
        return None
    exited = _EXITED.match(entry.get("Status") or "")
    return ContainerSeen(
        workspace_id,
        running=entry["State"] in RUNNING,
        op_id=_uuid(labels.get(OPERATION)),
        template_digest=labels.get(TEMPLATE),
        volume=labels.get(VOLUME),
        exit_code=int(exited[1]) if exited else None,
        started_at=datetime.fromtimestamp(entry["Created"], UTC),
        upstream=_upstream(entry.get("Ports") or ()),
    )


def _upstream(ports: Iterable[Mapping[str, Any]]) -> Upstream | None:
    """The port on the engine's loopback; there is none while it does not run."""
    for each in ports:
        if each.get("IP") == LOOPBACK and each.get("PublicPort"):
            return Upstream(LOOPBACK, each["PublicPort"])
    return None


def read_volume(entry: Mapping[str, Any]) -> VolumeSeen | None:
    """An entry of the engine's list of volumes; None when its name is not its labels'."""
    labels = entry.get("Labels") or {}
    workspace_id, generation = _uuid(labels.get(WORKSPACE)), labels.get(GENERATION, "")
    if workspace_id is None or not generation.isdecimal():
        return None
    ref = VolumeRef(workspace_id, int(generation))
    if ref.name != entry["Name"]:
        return None
    return VolumeSeen(workspace_id, ref.name, ref.generation, labels.get(NAME, ""))


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None
