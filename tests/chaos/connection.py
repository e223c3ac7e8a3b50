"""The database seam: connections whose every exchange with the server is a call of a script.

Postgres has no port, but its driver has one place through which all that is sent and read goes.
The connections outlive the leaders that borrow them, because making one costs more than a whole
term; what a dead leader's connection leaves on the server is ended as the server would end it.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

import codehub.store
from codehub.store.connect import arguments, translated
from codehub.store.pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.script import Script


def broken(name: str, done: bool) -> Exception:
    """The connection is lost before or after the server did what it was told."""
    return psycopg.OperationalError(f"injected: {name} ({'done' if done else 'not done'})")


class ScriptedConnection(AsyncConnection[Any]):
    """Asks its script before each exchange. One that was lost stays so until it is given back."""

    script: Script | None = None
    lost = False

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        done = partial(super().wait, gen, *args, **kwargs)
        if self.script is None:
            return await done()
        if self.lost:
            raise broken("a lost connection", False)
        return await self.script.call(f"database.{name_of(gen)}", done, self._lose)

    async def _try_cancel(self, *, timeout: float = 5.0) -> None:  # noqa: ASYNC109
        """Who is dead or has lost the connection cancels nothing on it."""
        if self.script is None or not (self.lost or self.script.dead):
            await super()._try_cancel(timeout=timeout)

    def _lose(self, name: str, done: bool) -> Exception:
        self.lost = True
        return broken(name, done)

    def renew(self) -> None:
        """What the server does when a client is gone: nothing of it stays open."""
        self.script, self.lost = None, False
        while self.pgconn.transaction_status == TransactionStatus.ACTIVE:
            if self.pgconn.get_result() is None:
                break
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            self.pgconn.exec_(b"ROLLBACK")


class Lines:
    """Connections to lend, one at a time to each borrower."""

    def __init__(self, url: str) -> None:
        self._conninfo = arguments(url)
        self._free: list[ScriptedConnection] = []
        self._all: list[ScriptedConnection] = []

    async def take(self, script: Script) -> ScriptedConnection:
        conn = self._free.pop() if self._free else await self._open()
        conn.script = script
        return conn

    def give_back(self, conn: ScriptedConnection) -> None:
        if not conn.closed:
            conn.renew()
            self._free.append(conn)

    def in_transaction(self) -> list[int]:
        """The server processes that wait for the next word of a transaction."""
        waiting = TransactionStatus.INTRANS
        open_ones = [each for each in self._all if not each.closed]
        return [
            each.info.backend_pid for each in open_ones if each.info.transaction_status == waiting
        ]

    async def close(self) -> None:
        for each in self._all:
            await each.close()

    async def _open(self) -> ScriptedConnection:
        conn = await ScriptedConnection.connect(
            self._conninfo, autocommit=True, row_factory=dict_row
        )
        self._all.append(conn)
        return conn


class LentPool(Pool):
    """The pool of one leader: borrowed connections that keep to its script."""

    def __init__(self, lines: Lines, script: Script) -> None:
        self._lines = lines
        self._script = script

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[DictRow]]:
        with translated():
            conn = await self._lines.take(self._script)
            try:
                yield conn
            finally:
                self._lines.give_back(conn)


def name_of(gen: Any) -> str:
    """What an exchange is about: a query by the name it has in `codehub.store`."""
    query = gen.gi_frame.f_locals.get("query") if gen.gi_frame else None
    if not isinstance(query, str):
        step: str = gen.__name__
        return _STEPS.get(step, step.strip("_"))
    return _name(query)


def forget_names() -> None:
    """The statements are other ones now."""
    _name.cache_clear()
    _names.cache_clear()


@lru_cache(maxsize=256)
def _name(query: str) -> str:
    """A fenced statement ends with the one that has the name."""
    known = _names()
    found = next((text for text in known if query.endswith(text)), None)
    return known[found] if found else " ".join(query.split())[:40]


def is_reading(name: str) -> bool:
    """Whether the statement of this name, or the exchange without one, changes nothing."""
    texts = {f"database.{each}": text for text, each in _names().items()}
    text = texts.get(name)
    return name == "database.rows" if text is None else text.split()[0] == "SELECT"


_STEPS = {"_stream_fetchone_gen": "rows", "_enter_gen": "BEGIN", "_exit_gen": "END"}


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Every statement that `codehub.store` keeps as a constant, by its text; longer ones first."""
    known: dict[str, str] = {}
    for each in pkgutil.iter_modules(codehub.store.__path__):
        module = importlib.import_module(f"codehub.store.{each.name}")
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, str) and " " in value:
                known.setdefault(value, f"{each.name}.{name.strip('_')}")
    return dict(sorted(known.items(), key=lambda item: -len(item[0])))
