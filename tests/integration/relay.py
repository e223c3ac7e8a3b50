"""Stand-ins for what lies between codehub and Postgres: a network that falls silent, a pooler."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

FINAL = (b"S", b"Q")
"""The messages after which a client waits for the server: Sync, and a simple query."""


class Relay:
    """Passes bytes between clients and the server, until it is told to fall silent."""

    def __init__(self, url: str) -> None:
        self.target: dict[str, Any] = dict(conninfo_to_dict(url))
        self._place = tempfile.TemporaryDirectory(prefix="codehub-relay-")
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        self._place.cleanup()

    async def start(self) -> None:
        path = f"{self._place.name}/.s.PGSQL.5432"
        self._server = await asyncio.start_unix_server(self._accept, path)

    async def stop(self) -> None:
        """As if the server was not there: connections end, new ones are refused."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
        closed = (writer.wait_closed() for writer in self._writers)
        await asyncio.gather(*closed, return_exceptions=True)
        self._writers.clear()

    @property
    def url(self) -> str:
        """The way to the same database through here."""
        return make_conninfo(**(self.target | {"host": self._place.name, "port": "5432"}))

    def silence(self) -> None:
        """Nothing gets through any more, in neither direction, and nobody is told."""
        self._flows.clear()

    def resume(self) -> None:
        """What was held back goes on."""
        self._flows.set()

    async def to_server(self) -> Stream:
        host, port = str(self.target["host"]), self.target.get("port") or 5432
        if host.startswith("/"):
            stream = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            stream = await asyncio.open_connection(host, int(port))
        self._writers.append(stream[1])
        return stream

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.append(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self.serve(reader, writer)
        writer.close()
        self._tasks.discard(task)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        theirs, ours = await self.to_server()
        await asyncio.gather(self._pass(reader, ours), self._pass(theirs, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._flows.wait()
            sink.write(data)
        sink.close()


class TransactionPooler(Relay):
    """Gives every transaction any session that is free, the one used last first."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._free: list[Stream] = []
        self._greeting = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = await reader.readexactly(4)
        startup = size + await reader.readexactly(int.from_bytes(size) - 4)
        async with self._session(startup):
            writer.write(self._greeting)
        while True:
            first = await _message(reader)
            async with self._session(startup) as session:
                await self._transaction(first, (reader, writer), session)

    async def _transaction(self, first: bytes, client: Stream, session: Stream) -> None:
        message, status = first, b""
        while status != b"I":
            session[1].write(message)
            if message[:1] in FINAL:
                status = await self._answer(session[0], client[1])
            if status != b"I":
                message = await _message(client[0])

    async def _answer(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bytes:
        """Passes on up to ReadyForQuery; the status of the transaction that it tells."""
        while True:
            message = await _message(source)
            sink.write(message)
            if message[:1] == b"Z":
                return message[5:]

    @asynccontextmanager
    async def _session(self, startup: bytes) -> AsyncIterator[Stream]:
        session = self._free.pop() if self._free else await self._connect(startup)
        yield session
        self._free.append(session)

    async def _connect(self, startup: bytes) -> Stream:
        reader, writer = await self.to_server()
        writer.write(startup)
        self._greeting = b""
        while self._greeting[-6:-5] != b"Z":
            self._greeting += await _message(reader)
        return reader, writer


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)
