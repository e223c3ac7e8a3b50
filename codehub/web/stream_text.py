"""Events as they go over the wire, each made once for all who get it.

The format is that of `text/event-stream`: `id`, `event`, `data`, and an empty line. JSON has no
line breaks of its own, so one `data` line is enough.
"""

from __future__ import annotations

import json
from itertools import count
from random import randint
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from codehub.web.shapes import view_of, workspace_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codehub.config import Settings
    from codehub.store.streams import Sight

MARK: Final = "\0"
"""Stands for a workspace's name in an address; no name and no header has it."""
RETRY: Final = (1000, 4000)
"""Milliseconds until a browser comes back, and not all at once."""

_RUN: Final = token_hex(4)
_numbers: Final = count(1)


def event(kind: str, data: bytes | Mapping[str, Any]) -> bytes:
    """One event; its id is this process's own, for logs: who comes back gets a snapshot anyway."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    head = f"id: {_RUN}-{next(_numbers)}\nevent: {kind}\ndata: "
    return b"%b%b\n\n" % (head.encode(), text)


def greeting() -> bytes:
    return b"retry: %d\n\n" % randint(*RETRY)


def snapshot(items: Iterable[bytes], *, first: bool, last: bool) -> bytes:
    """Some of the workspaces that somebody follows; what they had before counts no more."""
    flags = f'"first":{json.dumps(first)},"last":{json.dumps(last)}'.encode()
    return event("snapshot", b'{%b,"items":[%b]}' % (flags, b",".join(items)))


class Spoken:
    """A workspace in words, once for each address under which browsers know the hub."""

    __slots__ = ("_bytes", "_shape", "sight", "view")

    def __init__(self, sight: Sight, settings: Settings) -> None:
        self.sight = sight
        self.view = view_of(sight.workspace, sight.at, settings)
        self._shape = workspace_shape(self.view, "")
        self._bytes: dict[str, bytes] = {}

    def shape(self, address: str) -> bytes:
        """As the API says it; `address` has the mark in place of the name."""
        made = self._bytes.get(address)
        if made is None:
            url = address.replace(MARK, self.sight.workspace.name)
            placed = self._shape.model_copy(update={"url": url})
            made = self._bytes[address] = placed.model_dump_json(by_alias=True).encode()
        return made

    def expiring(self) -> bytes:
        """What idleness is about to do to it."""
        workspace, move = self.sight.workspace, self.view.next_move
        said: dict[str, Any] = {"id": str(workspace.id), "name": workspace.name, "nextMove": None}
        if move is not None:
            at = move.at.isoformat().replace("+00:00", "Z")
            said["nextMove"] = {"at": at, "to": move.new, "reason": move.reason}
        return event("workspace_expiring", said)
