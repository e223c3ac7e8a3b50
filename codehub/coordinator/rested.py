"""What rested in the last pass and does so still: the same row, the same things seen of it.

Judging and deciding are pure, so equal questions have equal answers and need not be asked again.
Answers that depend on the time are never kept. In a hub of ten thousand workspaces nearly all of
them rest, and a pass reads the few rows that changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.model.decision import Nothing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from codehub.coordinator.case import Case
    from codehub.coordinator.seen import Things


@dataclass(frozen=True, slots=True)
class _Known:
    version: str
    things: Things
    archives: int | None


class Rested:
    """The workspaces of which the last look said that there is nothing to do."""

    def __init__(self) -> None:
        self._known: dict[UUID, _Known] = {}

    def rests(self, workspace_id: UUID, version: str, things: Things, archives: int) -> bool:
        """Whether nothing changed since; `archives` counts what is known of archives."""
        known = self._known.get(workspace_id)
        if known is None or known.version != version or known.archives not in (None, archives):
            return False
        return known.things is things or known.things == things

    def note(self, case: Case, version: str, archives: int) -> None:
        """Remember one that rests; call it for those with nothing to store and nothing to do."""
        if not is_timeless(case):
            self.forget(case.seen.id)
            return
        has_archive = case.seen.status.archive_key is not None
        self._known[case.seen.id] = _Known(version, case.things, archives if has_archive else None)

    def forget(self, workspace_id: UUID) -> None:
        self._known.pop(workspace_id, None)

    def keep_only(self, versions: Mapping[UUID, str]) -> None:
        """Forget rows that are gone."""
        for gone in self._known.keys() - versions.keys():
            del self._known[gone]


def is_timeless(case: Case) -> bool:
    """Whether the answer stays the same however much time passes."""
    status = case.seen.status
    waits = case.seen.intent.override is not None or status.error_count or status.retry_at
    return isinstance(case.decision, Nothing) and not waits and case.things.unknown is None
