"""The benchmark of a coordinator's memory moves real volumes, and tells of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.bench_coordinator import bench, name_of, show
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import a_served_hub

if TYPE_CHECKING:
    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)


def test_archives_and_restores_are_told_with_the_peak_of_each(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [1, 3]
    with a_served_hub(ground) as hub:
        hub.declare(**{name_of(size): ground.served(NEVER) for size in sizes})
        hub.coordinate()
        moves = bench(hub, sizes)
        assert len(hub.archives()) >= len(sizes)
    assert [(each.what, each.megabytes) for each in moves] == [
        *(("archive", 1), ("restore", 1), ("archive", 3), ("restore", 3)),
    ]
    assert all(each.peak_mib > 0 for each in moves)
    show(moves)
    assert "largest peak beyond that of the first archive" in capsys.readouterr().out
