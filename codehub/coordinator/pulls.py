"""Who hears of the progress that a runtime makes with one workspace: the act that asked for it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from uuid import UUID

    Report = Callable[[Mapping[str, object]], None]


class Pulls:
    """A runtime is opened once and tells of all its pulls in one place; here they are sorted."""

    def __init__(self) -> None:
        self._heard: dict[UUID, Report] = {}

    def tell(self, workspace_id: UUID, progress: Mapping[str, object]) -> None:
        """What nobody waits for any more goes unheard."""
        report = self._heard.get(workspace_id)
        if report is not None:
            report(progress)

    @contextmanager
    def heard(self, workspace_id: UUID, report: Report) -> Iterator[None]:
        self._heard[workspace_id] = report
        try:
            yield
        finally:
            self._heard.pop(workspace_id, None)
