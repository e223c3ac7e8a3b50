"""What loading a spec set would do to each workspace: the plan shows it, the loader writes it.

One value for both, so that what a reviewer approved is what is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codehub.model.plan import Action
    from codehub.model.states import DesiredState
    from codehub.model.workspace import Declaration, Workspace


@dataclass(frozen=True, slots=True)
class Admission:
    """The loader's verdict on one workspace.

    `existing` is its row (None for a new one), `declaration` what the specs now say (None when it
    was removed). `desired` is the desired state the loader will set, None to leave it alone.
    `changed` says that the declaration differs in anything but its place in the files, which
    moves the generation; `template_changed` that image, command, env, port or resources differ.
    `orphaned` is the row's new orphan mark (removed from the specs without being pruned).
    """

    action: Action
    name: str
    existing: Workspace | None = None
    declaration: Declaration | None = None
    desired: DesiredState | None = None
    changed: bool = False
    template_changed: bool = False
    orphaned: bool = False
    reason: str = ""
