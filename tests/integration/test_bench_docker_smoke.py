"""The benchmarks of the Docker runtime run; what they count holds at any size, on any machine."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.bench import bench_docker, bench_wake
from tests.conftest import open_directory, require
from tests.contract.docker_engine import require_engine
from tests.contract.docker_proxy import Asked

if TYPE_CHECKING:
    from pathlib import Path

ONCE_EACH = {Asked("GET", "/volumes"): 1, Asked("GET", "/containers/json"): 1}


@pytest.mark.anyio
async def test_a_pass_lists_containers_and_volumes_once_however_many_there_are(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_engine()
    async with bench_docker.docker_hub(database_url, tmp_path) as hub:
        for count in (2, 10):
            await hub.fill(count)
            measured = await hub.measure(passes=2)
            assert measured.containers == count
            assert measured.asked == [ONCE_EACH, ONCE_EACH]
            bench_docker.show(measured)
    printed = capsys.readouterr().out
    assert re.search(r"^10 containers: first pass \d+ ms, usual pass \d+ ms", printed, re.MULTILINE)
    assert "each pass asks 1 time(s) for GET /containers/json\n" in printed


def test_waking_is_measured_beside_docker_run_and_rests_on_no_poll(
    database_url: str, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    require_engine()
    require("docker", shutil.which("docker") is not None, "there is no command `docker`")
    never = {"coordinator_idle_interval": 3600, "coordinator_active_interval": 3600}
    with (
        open_directory() as path,
        bench_wake.prepared(database_url, redis_url, path, **never) as bench,
    ):
        taken = bench_wake.measure(bench, runs=2)
        phases = [(each.old_phase, each.new_phase) for each in bench.hub.written()]
    assert phases.count(("STANDBY", "RUNNING")) == 3
    assert len(taken.ours) == len(taken.told) == len(taken.plain) == len(taken.alike) == 2
    bench_wake.show(taken)
    printed = capsys.readouterr().out
    assert re.search(r"^\d+\.\d\d times docker run$", printed, re.MULTILINE)
