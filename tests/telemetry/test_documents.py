"""Dashboard, alerts and runbooks speak of metrics that are there, with labels that they have."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from codehub.render.metrics_page import metrics_page
from codehub.telemetry.instruments import CATALOGUE, known_series

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD: dict[str, Any] = json.loads((DOCS / "grafana" / "codehub.json").read_text())
RULES: dict[str, Any] = yaml.safe_load((DOCS / "alerts" / "codehub.rules.yaml").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
RUNBOOKS = sorted((DOCS / "runbooks").glob("*.md"))
PANELS = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
EXPRESSIONS = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(each["expr"] for each in ALERTS),
]
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus itself adds."""
SELECTED = re.compile(r"(codehub_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")

BY_SERIES = {name: each for each in CATALOGUE for name in each.series}


def test_the_page_of_metrics_is_fresh() -> None:
    fresh = metrics_page()
    assert "`codehub_leader`" in fresh
    assert (DOCS / "reference" / "metrics.md").read_text() == fresh, (
        "run: python -m codehub.render.metrics_page > docs/reference/metrics.md"
    )


@pytest.mark.parametrize("expression", sorted(set(EXPRESSIONS)))
def test_an_expression_asks_for_what_there_is(expression: str) -> None:
    selected = SELECTED.findall(expression)
    assert selected
    for name, matchers in selected:
        assert name in known_series()
        for label, how, value in MATCHER.findall(matchers):
            check_label(name, label, how, value)
    allowed = OF_PROMETHEUS | set(chain(*(BY_SERIES[name].labels for name, _ in selected)))
    for labels in GROUPED.findall(expression):
        assert {each.strip() for each in labels.split(",")} <= allowed
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


def check_label(name: str, label: str, how: str, value: str) -> None:
    if label in OF_PROMETHEUS:
        return
    known = BY_SERIES[name].labels[label]
    asked = value.split("|") if how == "=~" else [value]
    assert set(asked) <= set(known), f"{name} has no {label} {value}"


@pytest.mark.parametrize("expression", sorted(set(EXPRESSIONS)))
def test_counters_are_taken_as_rates_and_gauges_as_they_are(expression: str) -> None:
    for found in SELECTED.finditer(expression):
        metric = BY_SERIES[found[1]]
        before = expression[: found.start()]
        rated = before.endswith(("rate(", "increase("))
        assert rated == (metric.kind != "gauge"), found[0]


def test_every_metric_is_looked_at_somewhere() -> None:
    used = {BY_SERIES[name].name for each in EXPRESSIONS for name, _ in SELECTED.findall(each)}
    unused = {each.name for each in CATALOGUE} - used
    assert unused == {
        "codehub_build_info",
        "codehub_leader_epoch",
        "codehub_process_start_time_seconds",
        "codehub_process_virtual_memory_bytes",
    }


def test_the_dashboard_is_one() -> None:
    assert (DASHBOARD["title"], DASHBOARD["uid"]) == ("CodeHub", "codehub")
    ids = [each["id"] for each in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for each in PANELS:
        assert each["title"]
        assert each["datasource"]["uid"] == "${datasource}"
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "job"}


def test_no_two_panels_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for each in DASHBOARD["panels"]:
        place = each["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, each["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each["alert"])
def test_an_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    notes = alert["annotations"]
    assert notes["summary"].endswith(".")
    assert notes["description"].endswith(".")
    page = DOCS / "alerts" / notes["runbook_url"]
    text = page.read_text()
    assert text.startswith(f"# {alert['alert']}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["See it", "Do"]


def test_alerts_and_runbooks_belong_together() -> None:
    names = [each["alert"] for each in ALERTS]
    assert len(names) == len(set(names))
    named = {Path(each["annotations"]["runbook_url"]).name for each in ALERTS}
    assert named == {each.name for each in RUNBOOKS}


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda each: each.stem)
def test_a_runbook_names_metrics_and_pages_that_are_there(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"codehub_[a-z_]+", text):
        assert name in known_series()
    for link in re.findall(r"\]\(([^)]+\.md)\)", text):
        assert (page.parent / link).is_file(), link


COMMANDS = (DOCS / "reference" / "commands.md").read_text()


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda each: each.stem)
def test_a_runbook_uses_commands_that_are_there(page: Path) -> None:
    """Each command with the options it is shown with; what stands after ` #` is a comment."""
    sections = dict(
        re.findall(r"^## (codehub [a-z -]+)\n\n```text\n(.*?)```", COMMANDS, re.M | re.S)
    )
    shown = re.findall(r"codehub ((?:db |serve )?[a-z]+)([^`\n#]*)", page.read_text())
    for verb, rest in shown:
        about = sections.get(f"codehub {verb}")
        assert about is not None, f"codehub {verb}"
        for option in re.findall(r"(?<!\S)(--?[a-z-]+)", rest):
            assert option in about, f"codehub {verb} {option}"
