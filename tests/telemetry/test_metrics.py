"""The metrics as Prometheus reads them: all there from the start, and none with a name in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from codehub import __version__
from codehub.telemetry import metric
from codehub.telemetry.exposition import render
from codehub.telemetry.instruments import CATALOGUE, REVISION, WORKSPACES, known_series
from codehub.telemetry.metric import Instruments
from codehub.telemetry.traffic import Answered, Traffic, TrafficMetrics, Waking
from tests.telemetry.shown import Rises, leading, parse, shown

if TYPE_CHECKING:
    import pytest

MOST_SERIES = 1000


def test_every_metric_of_the_catalogue_is_shown_with_its_help_and_kind() -> None:
    with leading():
        families = {each.name: each for each in text_string_to_metric_families(render().decode())}
    for each in CATALOGUE:
        family = families[each.name.removesuffix("_total")]
        assert family.type == each.kind
        assert family.documentation
        assert each.help.endswith(".")


def test_nothing_is_shown_that_the_catalogue_does_not_know() -> None:
    assert {name for name, _ in parse(render().decode())} <= known_series()


def test_names_are_ours_and_each_is_used_once() -> None:
    names = [each.name for each in CATALOGUE]
    assert len(names) == len(set(names))
    for each in CATALOGUE:
        assert re.fullmatch(r"codehub_[a-z_]+", each.name)
        assert (each.kind == "counter") == each.name.endswith("_total")


def test_a_counter_is_there_before_it_first_rises() -> None:
    """So that the first failure is a rise, and no alert misses it."""
    for each in CATALOGUE:
        if each.kind == "counter" and all(each.labels.values()):
            for values in each.combinations():
                assert shown(each.name, **dict(zip(each.labels, values, strict=True))) is not None


def test_no_label_can_have_a_name_of_somebody() -> None:
    labels = {name for each in CATALOGUE for name in each.labels}
    assert labels == {
        *("class", "component", "direction", "kind", "operation", "phase", "reason", "result"),
        *("source", "status", "version"),
    }
    assert len(parse(render().decode())) < MOST_SERIES


def test_the_version_is_told() -> None:
    assert shown("codehub_build_info", version=__version__) == 1


def test_what_only_a_leader_knows_is_shown_by_a_leader_alone() -> None:
    terms = Rises()
    with leading(7):
        REVISION.set(12)
        WORKSPACES.set(3, "RUNNING")
        assert shown("codehub_leader") == 1
        assert shown("codehub_leader_epoch") == 7
        assert shown("codehub_revision") == 12
        assert shown("codehub_workspaces", phase="RUNNING") == 3
    assert shown("codehub_leader") == 0
    assert shown("codehub_revision") is None
    assert shown("codehub_workspaces", phase="RUNNING") is None
    assert terms.of("codehub_leader_terms_total") == 1


def test_the_next_term_does_not_begin_with_the_last_ones_figures() -> None:
    with leading():
        REVISION.set(12)
    REVISION.set(13)  # a component that is slow to end
    with leading():
        assert shown("codehub_revision") is None


def test_an_age_grows_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(metric, "monotonic", lambda: now)
    instruments = Instruments()
    instruments.leads = True
    age = instruments.reading("codehub_age_seconds", "How old it is.")
    age.since(5)
    now = 1010.0
    (family,) = instruments.collect()
    assert [each.value for each in family.samples] == [15]


def test_the_proxys_plain_counts_become_metrics() -> None:
    traffic, instruments = Traffic(), Instruments()
    TrafficMetrics(traffic, instruments)
    traffic.forwarded[2] += 3
    traffic.requests[Answered.PAGE][5] += 1
    traffic.wakes[Waking.LIMITED] += 2
    traffic.websockets = 4
    samples = {
        (each.name, *sorted(each.labels.values())): each.value
        for family in instruments.registry.collect()
        for each in family.samples
    }
    assert samples["codehub_proxy_requests_total", "2xx", "forwarded"] == 3
    assert samples["codehub_proxy_requests_total", "5xx", "page"] == 1
    assert samples["codehub_proxy_requests_total", "2xx", "own"] == 0
    assert samples["codehub_proxy_wakes_total", "limited"] == 2
    assert samples[("codehub_proxy_websockets",)] == 4
