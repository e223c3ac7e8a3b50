"""Passwords: argon2id, checked beside the event loop, with the same work for names nobody has.

A hash comes from a User spec, and the spec is what counts: it is never replaced in the database,
where the next apply would undo it while git still shows the old one. A hash with other parameters
than today's is good, and `outdated` says so, so that its owner is asked to make a new one.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError

from codehub.errors import TooManyTries, UsageError
from codehub.service.minting import new_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

TIME_COST: Final = 3
MEMORY_KIB: Final = 64 * 1024
"""As RFC 9106 recommends where memory is scarce, in one lane: the pool's threads are the lanes."""

MOST_MEMORY_KIB: Final = 1024 * 1024
MOST_TIME_COST: Final = 20
"""What a hash in a spec may ask of the hub; above it, it lets nobody in."""

SHORTEST: Final = 8
LONGEST: Final = 1024
WAITING: Final = 32
"""Checks that wait for a thread; whoever comes then is told to try again."""
BUSY_SECONDS: Final = 2.0


def todays_hasher() -> PasswordHasher:
    """The parameters of new hashes."""
    return PasswordHasher(TIME_COST, MEMORY_KIB, 1, type=Type.ID)


def hash_password(password: str, hasher: PasswordHasher | None = None) -> str:
    """What a User spec holds as `passwordHash`. Takes its time: never on an event loop."""
    if len(password) < SHORTEST:
        raise UsageError(f"a password needs at least {SHORTEST} characters")
    if len(password) > LONGEST:
        raise UsageError(f"a password has at most {LONGEST} characters")
    return (hasher or todays_hasher()).hash(_bytes(password))


class Passwords:
    """Checks passwords in a few threads, and no more than wait in its line. Close it at the end."""

    def __init__(
        self, *, threads: int = 2, waiting: int = WAITING, hasher: PasswordHasher | None = None
    ) -> None:
        self._hasher = hasher or todays_hasher()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="codehub-password")
        self._most = threads + waiting
        self._pending = 0
        self._nobodys = self._pool.submit(self._hasher.hash, new_secret())

    def __enter__(self) -> Passwords:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Check nothing more; what is under way comes to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether this is the password. Without a hash it takes as long, and is not."""
        with self.place():
            return await self.check(stored, password)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the line, for one `check`; TooManyTries when there is none."""
        if self._pending >= self._most:
            raise TooManyTries(
                "too many people log in at this moment",
                hint="try again in a few seconds",
                seconds=BUSY_SECONDS,
            )
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1

    async def check(self, stored: str | None, password: str) -> bool:
        """As `verify`, for whoever has a place."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._verify, stored, password)

    def outdated(self, stored: str) -> bool:
        """Whether the hash was made with other parameters than today's."""
        return self._hasher.check_needs_rehash(stored)

    def _verify(self, stored: str | None, password: str) -> bool:
        usable = stored is not None and _bearable(stored) and len(password) <= LONGEST
        against = stored if usable and stored is not None else self._nobodys.result()
        try:
            matches = self._hasher.verify(against, _bytes(password[:LONGEST]))
        except (Argon2Error, InvalidHashError):
            return False
        return usable and matches


def _bytes(password: str) -> bytes:
    """The same for all keyboards: some send an accented letter as one sign, some as two."""
    return normalize("NFC", password).encode("utf-8", "surrogatepass")


def _bearable(stored: str) -> bool:
    try:
        asked = extract_parameters(stored)
    except InvalidHashError:
        return False
    return (
        asked.type is Type.ID
        and asked.memory_cost <= MOST_MEMORY_KIB
        and asked.time_cost <= MOST_TIME_COST
    )
