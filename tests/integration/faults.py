"""A store that fails where a test wants it to: on the n-th call, before or after it was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from types import TracebackType

    from codehub.model.runtime import ObjectInfo
    from codehub.ports import ObjectReader, ObjectStore, ObjectWriter


Answer = TypeVar("Answer")


class FaultyStore:
    """Passes every call on to a real store; `before` and `after` are told of each and may raise.

    `alter` may change what is read.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        before: Callable[[str], None] = lambda call: None,
        after: Callable[[str], None] = lambda call: None,
        alter: Callable[[bytes], bytes] = lambda data: data,
    ) -> None:
        self.store = store
        self.before = before
        self.after = after
        self.alter = alter
        self.calls: list[str] = []

    def around(self, call: str, work: Callable[[], Answer]) -> Answer:
        self.calls.append(call)
        self.before(call)
        answer = work()
        self.after(call)
        return answer

    def head(self, key: str) -> ObjectInfo | None:
        return self.around("head", lambda: self.store.head(key))

    def open_writer(self, key: str) -> ObjectWriter:
        return _Writer(self, self.around("open_writer", lambda: self.store.open_writer(key)))

    def open_reader(self, key: str) -> ObjectReader | None:
        reader = self.around("open_reader", lambda: self.store.open_reader(key))
        return None if reader is None else _Reader(self, reader)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self.around("list", lambda: self.store.list(prefix))

    def delete(self, key: str) -> None:
        self.around("delete", lambda: self.store.delete(key))

    def abort_unfinished(self, prefix: str, older_than: datetime) -> int:
        return self.around("abort", lambda: self.store.abort_unfinished(prefix, older_than))


class _Writer:
    def __init__(self, faulty: FaultyStore, writer: ObjectWriter) -> None:
        self._faulty = faulty
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._faulty.around("write", lambda: self._writer.write(data))

    def commit(self) -> None:
        self._faulty.around("commit", self._writer.commit)

    def abort(self) -> None:
        self._writer.abort()


class _Reader:
    def __init__(self, faulty: FaultyStore, reader: ObjectReader) -> None:
        self._faulty = faulty
        self._reader = reader

    def read(self, size: int) -> bytes:
        data = self._faulty.around("read", lambda: self._reader.read(size))
        return self._faulty.alter(data) if data else data

    def __enter__(self) -> _Reader:
        self._reader.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.__exit__(kind, error, trace)
