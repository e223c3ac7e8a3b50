"""What decides in a benchmark of our proxy: at first everything is forwarded.

A gate for the bench is an async context manager that takes the upstream's port and yields a Front.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from codehub.model.runtime import Upstream
from codehub.proxy.seam import Answer, Forward

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from codehub.proxy.seam import Gate, RequestHead

    OpenGate = Callable[[int], AbstractAsyncContextManager["Front"]]


@dataclass(frozen=True, slots=True)
class Front:
    """A gate, and how a request must look to get through it to the upstream."""

    gate: Gate
    prefix: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class _Nobody:
    """Watches nothing."""

    def answered(self, status: int) -> None:
        pass

    def moving(self, *, ends: bool) -> None:
        pass

    def frame(self, opcode: int, length: int, first: bytes, *, from_client: bool) -> None:
        pass

    def opened(self, hang_up: Callable[[], None]) -> None:
        pass

    def closed(self) -> None:
        pass


class _Open:
    """Forwards all."""

    def __init__(self, port: int) -> None:
        self._upstream = Upstream("127.0.0.1", port)
        self._watcher = _Nobody()

    def judge(self, head: RequestHead) -> Forward:
        return Forward(self._upstream, head.target, b"", head.headers, self._watcher)

    def refuse(self, head: RequestHead | None, status: int, reason: str) -> Answer:
        return Answer(status, [], reason.encode())


@asynccontextmanager
async def forward_all(port: int) -> AsyncIterator[Front]:
    yield Front(_Open(port))


def find_gate(name: str) -> OpenGate:
    """By its name, `package.module:function`."""
    module, _, function = name.partition(":")
    found: OpenGate = getattr(import_module(module), function)
    return found
