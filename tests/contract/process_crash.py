"""A hub that dies where it is told: runs one action of the process runtime up to a crash point.

Started once as a process of its own, it forks for every order it reads, so that a crash costs some
milliseconds. In the fork, every call that changes the world is two points, before and after it. At
the wanted one the process is gone, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.process import ProcessRuntime
from codehub.model.runtime import StartRequest, VolumeRef

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

CRASHED, ENDED, FAILED = 77, 0, 1
CHANGING: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("open", "write", "replace", "rename", "truncate", "unlink", "mkdir", "rmdir", "chmod"),
        *("posix_spawn", "waitpid", "kill"),
    ),
    signal: ("pidfd_send_signal",),
}


def main() -> None:
    """One order is one line of JSON in; what became of it is one line out."""
    for line in sys.stdin:
        order = json.loads(line)
        entry, exit_ = os.pipe()
        pid = os.fork()
        if pid == 0:
            _die_in(order, exit_)
        os.close(exit_)
        with os.fdopen(entry) as pipe:
            said = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(json.dumps({"code": code, "said": said}) + "\n")
        sys.stdout.flush()


def _die_in(order: dict[str, Any], pipe: int) -> None:
    try:
        runtime = ProcessRuntime(Path(order["root"]), order["hub_id"])
        _watch(order["point"], pipe)
        asyncio.run(_act(runtime, order))
    except BaseException as error:
        os.write(pipe, repr(error).encode())
        os._exit(FAILED)
    os._exit(ENDED)


async def _act(runtime: ProcessRuntime, order: dict[str, Any]) -> None:
    ref = VolumeRef(UUID(order["workspace_id"]), 1)
    match order["action"]:
        case "claim":
            await runtime.claim()
        case "create":
            await runtime.create_volume(ref)
        case "start":
            await runtime.start(request(ref, UUID(order["op_id"]), order["command"]), _leads)
        case "stop":
            await runtime.stop(ref.workspace_id, timedelta(seconds=30))
        case "delete":
            await runtime.delete_volume(ref)


def request(ref: VolumeRef, op_id: UUID, command: list[str]) -> StartRequest:
    return StartRequest(
        workspace_id=ref.workspace_id,
        name="api",
        volume=ref,
        op_id=op_id,
        template_digest="t1",
        command=tuple(command),
        env={},
        port=8080,
    )


async def _leads() -> None:
    """We still lead."""


def _watch(last: int, pipe: int) -> None:
    write, passed = os.write, 0

    def point(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == last:
            write(pipe, f"{passed}, {name}".encode())
            os._exit(CRASHED)

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return call(*args, **kwargs)
            point(f"before {name}{args[:2]}")
            outcome = call(*args, **kwargs)
            point(f"after {name}{args[:2]}")
            return outcome

        return run

    for module, names in CHANGING.items():
        for name in names:
            setattr(module, name, watched(name, getattr(module, name)))


if __name__ == "__main__":
    main()
