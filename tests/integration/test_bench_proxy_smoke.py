"""The proxy's benchmark runs, so that a figure can be had at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench import bench_proxy

if TYPE_CHECKING:
    from pathlib import Path


def test_the_proxy_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvloop")
    pytest.importorskip("picows")
    figures, _ = bench_proxy.bench([], seconds=0.2, runs=1, idle=20)
    printed = capsys.readouterr().out
    assert set(figures) == {bench_proxy.DIRECT, "codehub"}
    assert all(value > 0 for kinds in figures.values() for each in kinds.values() for value in each)
    assert "20 idle WebSockets: " in printed


def test_what_cannot_be_had_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("uvloop")
    pytest.importorskip("picows")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.bench.proxies.peers.find_program", lambda *_: None)
    assert bench_proxy.find_peers(tmp_path) == []
    assert capsys.readouterr().out.count("left out") == 3
