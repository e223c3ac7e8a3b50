"""Who is told what: what was read becomes events for those who follow it, and for no one else.

What all clients know of a workspace is kept once: whose it is, and which version of its row those
who follow it were told. By that, nothing is told twice, and whoever loses a workspace to another
owner is told that it is gone. An override ends without a write, so its end is kept too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.store.streams import START
from codehub.web.stream_text import Spoken, event, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.config import Settings
    from codehub.store.streams import Sight
    from codehub.web.stream_client import Client
    from codehub.web.stream_clients import Clients

log: Final = logging.getLogger("codehub.web")


@dataclass(slots=True)
class _Known:
    """`version` is the one that all who follow it were told; empty when it was in pages alone."""

    owner: str
    name: str
    version: str = ""


class Telling:
    """What is handed in must have been read in this order."""

    def __init__(self, clients: Clients, settings: Settings) -> None:
        self._clients = clients
        self._settings = settings
        self._known: dict[UUID, _Known] = {}
        self._ends: dict[UUID, datetime] = {}

    def forget(self) -> None:
        """Nobody has anything, or all get everything anew."""
        self._known.clear()
        self._ends.clear()

    def untold(self, versions: Mapping[UUID, str]) -> Iterable[UUID]:
        """Those among these rows that are not as everybody was told."""
        for each, version in versions.items():
            known = self._known.get(each)
            if known is None or known.version != version:
                yield each

    def ended(self, now: datetime) -> Iterable[UUID]:
        """Those that everybody was told of with an override which is over by now."""
        return [each for each, end in self._ends.items() if end <= now]

    def tell(self, workspace_id: UUID, sight: Sight | None, *, expiring: bool) -> None:
        """What became of a workspace; None when it is not there at all."""
        if sight is None or sight.workspace.status.deleted_at is not None:
            self._take_away(workspace_id)
            return
        known = self._note(sight)
        end = self._ends.get(workspace_id)
        changed = known.version != sight.version or (end is not None and end <= sight.at)
        spoken = self._spoken(sight) if changed or expiring else None
        if spoken is None:
            return
        known.version = sight.version
        self._await_end(sight)
        clients = [
            each
            for each in self._clients.following(known.owner, known.name)
            if not each.expects(workspace_id)
        ]
        if changed:
            _put_shapes(spoken, clients)
        if expiring:
            _put(spoken.expiring(), clients)

    def note(self, sight: Sight) -> Spoken | None:
        """One that is to be in somebody's snapshot; None where it cannot be shown."""
        self._note(sight)
        return self._spoken(sight)

    def _note(self, sight: Sight) -> _Known:
        """Remember whose it is, wherever that was read."""
        workspace = sight.workspace
        owner, name = workspace.declaration.owner, workspace.name
        known = self._known.get(workspace.id)
        if known is not None and (known.owner, known.name) != (owner, name):
            self._take_away(workspace.id, owner, name)
        if workspace.id not in self._known:
            self._known[workspace.id] = _Known(owner, name)
            self._await_end(sight)
        return self._known[workspace.id]

    def _await_end(self, sight: Sight) -> None:
        """Keep when the override ends that is told of now."""
        workspace = sight.workspace
        override = workspace.intent.override
        if override is not None and override.until > sight.at:
            self._ends[workspace.id] = override.until
        else:
            self._ends.pop(workspace.id, None)

    def _take_away(self, workspace_id: UUID, owner: str | None = None, name: str = "") -> None:
        """It is gone, or another's now: those who had it and no longer follow it are told."""
        known = self._known.pop(workspace_id, None)
        self._ends.pop(workspace_id, None)
        if known is None:
            return
        had = self._clients.following(known.owner, known.name)
        lost = [
            each
            for each in had
            if not each.expects(workspace_id)
            and not (owner is not None and each.wish.takes(owner, name))
        ]
        _put(event("workspace_deleted", {"id": str(workspace_id), "name": known.name}), lost)

    def _spoken(self, sight: Sight) -> Spoken | None:
        """What cannot be shown of one must not keep all others from being shown."""
        try:
            return Spoken(sight, self._settings)
        except Exception:
            log.exception("the workspace %s cannot be shown", sight.workspace.name)
            return None


def hand_out(
    spoken: list[Spoken], clients: Iterable[Client], after: UUID, going_on: UUID | None
) -> None:
    """A part of a snapshot to those who wait for what comes after this id."""
    pieces: dict[str, bytes] = {}
    for client in clients:
        if client.after != after:
            continue
        piece = pieces.get(client.address)
        if piece is None:
            shapes = (each.shape(client.address) for each in spoken)
            piece = snapshot(shapes, first=after == START, last=going_on is None)
            pieces[client.address] = piece
        client.put_page(piece, going_on)


def _put_shapes(spoken: Spoken, clients: Iterable[Client]) -> None:
    pieces: dict[str, bytes] = {}
    for client in clients:
        piece = pieces.get(client.address)
        if piece is None:
            piece = event("workspace_updated", spoken.shape(client.address))
            pieces[client.address] = piece
        client.put(piece)


def _put(piece: bytes, clients: Iterable[Client]) -> None:
    for client in clients:
        client.put(piece)
