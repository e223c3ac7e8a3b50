"""Threads that nobody waits for: bounded in number, and no obstacle to anybody's end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from codehub.service.collecting import call_store
from codehub.service.threads import LooseExecutor, Threads

pytestmark = pytest.mark.anyio

PATIENCE = 60


async def test_they_give_and_raise_what_the_work_does() -> None:
    threads = Threads("test", 2)
    assert await threads.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.call(lambda: 1 // 0)


async def test_there_are_never_more_than_so_many_and_what_hangs_keeps_its_place() -> None:
    threads, go_on, inside = Threads("test", 2), threading.Event(), threading.Semaphore(0)

    def hang() -> str:
        inside.release()
        go_on.wait()
        return "gone on"

    hanging = [threads.submit(hang) for _ in range(3)]
    for _ in range(2):
        assert inside.acquire(timeout=PATIENCE)
    assert [each.running() for each in hanging] == [True, True, False]
    given_up = asyncio.create_task(threads.call(hang))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up

    go_on.set()
    assert [each.result(PATIENCE) for each in hanging] == ["gone on"] * 3
    assert await threads.call(lambda: "all done") == "all done"
    assert inside.acquire(blocking=False)
    assert not inside.acquire(blocking=False), "who gave up before it began never began"


async def test_after_a_close_nothing_begins() -> None:
    threads, go_on, begun = Threads("test", 1), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait()

    first, second = threads.submit(hang), threads.submit(hang)
    assert begun.wait(PATIENCE)
    threads.close()
    with pytest.raises(CancelledError):
        second.result(PATIENCE)
    with pytest.raises(RuntimeError):
        threads.submit(hang)
    go_on.set()
    first.result(PATIENCE)


async def test_calls_to_the_store_keep_no_process_from_its_end() -> None:
    thread = await call_store(threading.current_thread)
    assert thread.daemon
    assert thread.name == "codehub-store"


async def test_an_executor_closes_without_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codehub.service.threads.FAREWELL", 0.0)
    executor, go_on = LooseExecutor(), threading.Event()
    hanging = executor.submit(go_on.wait)
    executor.shutdown(wait=True)
    assert not hanging.done()
    go_on.set()
    assert hanging.result(PATIENCE) is True


HANGING = """
import asyncio, signal, sys, threading
from contextlib import contextmanager
from codehub.cli.serving import run_serving, stoppable, until_signal
from codehub.service import threads

threads.FAREWELL = 0.0

@contextmanager
def services():
    try:
        yield
    finally:
        print("services stopped", flush=True)

async def serve():
    with until_signal() as ended:
        thread = asyncio.create_task(asyncio.to_thread(threading.Event().wait))
        await asyncio.sleep(0)
        print("ready", flush=True)
        await ended.wait()
        print("ending", flush=True)
        if sys.argv[1] == "hangs":
            await asyncio.Event().wait()

with stoppable(), services():
    run_serving(serve())
print("the usual end", flush=True)
"""


def serving(how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HANGING, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def heard(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


def test_ctrl_c_ends_a_server_in_which_a_thread_hangs() -> None:
    with serving("ends") as process:
        heard(process, "ready")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert out == "ending\nservices stopped\nthe usual end\n"


def test_a_second_ctrl_c_ends_it_at_once_and_leaves_no_service_behind() -> None:
    with serving("hangs") as process:
        heard(process, "ready")
        process.send_signal(signal.SIGINT)
        heard(process, "ending")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "Stopped at once.\n")
    assert out == "services stopped\n"
