"""The settings at work in real processes: where metrics are served, and how it is logged."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from codehub.config import load_settings
from codehub.errors import UsageError
from tests.integration.command_line import NEUTRAL, run_codehub
from tests.telemetry.shown import parse
from tests.telemetry.test_listen import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 90
LEADS = ("codehub_leader", frozenset[tuple[str, str]]())


class Process:
    """A serving process, and what it said so far."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process = process
        self._errors = errors

    @property
    def said(self) -> list[str]:
        return self._errors.read_text().splitlines()

    def until(self, found: Callable[[], Any]) -> Any:
        """What it comes to; it must."""
        ends = time.monotonic() + PATIENCE
        while not (value := found()):
            assert self.process.poll() is None, f"it ended: {self.said}"
            assert time.monotonic() < ends, f"it did not come: {self.said}"
            time.sleep(0.05)
        return value

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def serving(directory: Path, *words: str, **env: str) -> Iterator[Process]:
    errors = directory / "errors.txt"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "codehub", "serve", *words, "--data", str(directory)],
            cwd=directory,
            env={"PATH": "/usr/bin:/bin", **NEUTRAL, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
    try:
        yield Process(process, errors)
    finally:
        process.terminate()
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=PATIENCE)


@pytest.fixture
def hub(database_url: str, redis_url: str) -> dict[str, str]:
    return {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "RUNTIME_ENABLED": "process"}


def scraped(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        return parse(answer.read().decode())


def test_a_coordinator_serves_metrics_and_logs_json(hub: dict[str, str], tmp_path: Path) -> None:
    asked = {"METRICS_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "JSON"}
    with serving(tmp_path, "coordinator", **hub, **asked) as running:

        def port() -> int | None:
            found = re.search(r"metrics are served at 127\.0\.0\.1:(\d+)", "\n".join(running.said))
            return int(found[1]) if found else None

        served = running.until(port)
        running.until(lambda: scraped(served)[LEADS] == 1)
        running.until(lambda: any("leads, epoch 1" in each for each in running.said))
        assert running.end() == 0
        logged = [json.loads(each) for each in running.said if each.startswith("{")]
    line = next(each for each in logged if each["event"] == "leads, epoch 1")
    assert (line["level"], line["logger"]) == ("info", "codehub.coordinator")


def test_each_worker_of_a_proxy_serves_its_own(hub: dict[str, str], tmp_path: Path) -> None:
    first = free_ports(3)
    asked = {"METRICS_LISTEN": f"127.0.0.1:{first}", "LOG_LEVEL": "warning"}
    words = ("proxy", "--workers", "2", "--port", str(first + 2))
    with serving(tmp_path, *words, **hub, **asked) as running:

        def answers(port: int) -> bool:
            try:
                return LEADS in scraped(port)
            except OSError:
                return False

        running.until(lambda: answers(first) and answers(first + 1))
        assert not [each for each in running.said if " INFO " in each]
        assert running.end() == 0


def test_a_port_that_is_taken_ends_it_with_a_clear_word(
    hub: dict[str, str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        env = {**hub, "METRICS_LISTEN": f"127.0.0.1:{port}"}
        ran = run_codehub(
            "serve", "coordinator", "--data", str(tmp_path / "data"), cwd=tmp_path, env=env
        )
    assert ran.code == 1
    assert f"metrics cannot be served at 127.0.0.1:{port}" in ran.err
    assert "METRICS_LISTEN" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("name", "value"),
    [("METRICS_LISTEN", "9464"), ("LOG_FORMAT", "xml"), ("LOG_LEVEL", "loud")],
)
def test_a_setting_that_is_none_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"setting {name}"):
        load_settings()


def test_settings_may_be_written_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "WARNING")
    monkeypatch.setenv("METRICS_LISTEN", "[::1]:9464")
    settings = load_settings()
    assert (settings.log_level, settings.metrics_listen) == ("warning", "[::1]:9464")
    assert settings.log_format == "console"
