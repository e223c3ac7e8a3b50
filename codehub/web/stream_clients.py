"""All open streams of a process: how many there may be, and who is to hear of what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from codehub.errors import TooManyTries, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from codehub.model.access import Person
    from codehub.web.stream_client import Client

LATER_SECONDS: Final = 10.0


class Clients:
    """By whose workspaces they follow. `most` may be open at once, `most_each` of one person."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._by_owner: dict[str | None, set[Client]] = {}
        self._of: Counter[UUID] = Counter()
        self._closed = False

    def __len__(self) -> int:
        return self._of.total()

    def __iter__(self) -> Iterator[Client]:
        """All, as they are now: whoever comes or goes meanwhile changes nothing."""
        return iter([each for group in self._by_owner.values() for each in group])

    def require_room(self, person: Person) -> None:
        """Raises what the API answers when this person can have no stream more."""
        if self._closed or len(self) >= self._most:
            raise Unreachable(
                "there is no room for another stream of events", hint="try again in a moment"
            )
        if self._of[person.id] >= self._most_each:
            raise TooManyTries(
                f"{person.name} has {self._most_each} streams of events open, and may have no more",
                seconds=LATER_SECONDS,
                hint="close a dashboard, or a program that follows",
            )

    def add(self, client: Client) -> None:
        self._by_owner.setdefault(client.wish.owner, set()).add(client)
        self._of[client.identity.person.id] += 1

    def remove(self, client: Client) -> None:
        group = self._by_owner[client.wish.owner]
        group.remove(client)
        if not group:
            del self._by_owner[client.wish.owner]
        self._of[client.identity.person.id] -= 1
        self._of += Counter()  # those who have none any more

    def following(self, owner: str, name: str) -> set[Client]:
        """Those who are to hear of a workspace with this owner and name."""
        groups = (self._by_owner.get(owner, ()), self._by_owner.get(None, ()))
        return {each for group in groups for each in group if each.wish.takes(owner, name)}

    def put(self, piece: bytes) -> None:
        """The same for all."""
        for client in self:
            client.put(piece)

    def close(self, piece: bytes) -> None:
        """Say this to all, end them, and let nobody in any more."""
        self._closed = True
        for client in self:
            client.end(piece)
