"""A change that one person makes on the dashboard, until another person sees it.

    python -m tests.bench.bench_browsers [--tries 20]

A whole hub, and two browsers of two people who look at the same workspace. In turn each of them
presses its button, start or stop; the clock runs from the click in the one browser until the row
has changed in the other's document. Both take the time from the machine's clock, by themselves.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.bench.goals import Goals
from tests.bench.hub import load
from tests.browser.dashboard_world import dashboard_hub, looking
from tests.end_to_end.hub import DEMO

if TYPE_CHECKING:
    from tests.browser.dashboard_world import Looking

NAME: Final = "api"
STATE: Final = f"document.querySelector('tr[data-row={NAME}] .standing').innerText"
CLICKED: Final = """
void document.addEventListener(
    'submit', () => { window.clicked = Date.now(); }, { capture: true, once: true })
"""
SEEN: Final = f"""
void (() => {{
    const before = {STATE};
    window.seen = null;
    const look = new MutationObserver(() => {{
        if ({STATE} === before) return;
        window.seen = Date.now();
        look.disconnect();
    }});
    look.observe(document.querySelector('main'), {{ childList: true, subtree: true }});
}})()
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of each try."""

    delays: list[float]


def change(actor: Looking, watcher: Looking, action: str, phase: str) -> float:
    """One presses, the other sees; both go on to see the end of it."""
    watcher.tab.value(SEEN)
    actor.tab.value(CLICKED)
    actor.press(NAME, action)
    watcher.tab.until("window.seen")
    delay = (watcher.tab.value("window.seen") - actor.tab.value("window.clicked")) / 1000
    for each in (actor, watcher):
        each.tab.until(f"{STATE}.trim() === '{phase}'")
    return float(delay)


def measure(tries: int) -> list[float]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        hub = stack.enter_context(dashboard_hub(**{NAME: DEMO}))
        people = [
            stack.enter_context(looking(hub, place / name, name)) for name in ("alice", "root")
        ]
        for each in people:
            each.until_live()
        delays = []
        for number in range(tries):
            actor, watcher = people if number % 4 < 2 else reversed(people)
            deed = ("start", "Running") if number % 2 == 0 else ("stop", "Standby")
            delays.append(change(actor, watcher, *deed))
        return delays


def bench(tries: int) -> Figures:
    figures = Figures(measure(tries))
    middle, worst = statistics.median(figures.delays), max(figures.delays)
    print(
        f"2 browsers, {tries} changes: the other one shows it after {middle * 1000:.0f} ms at the"
        f" median, {worst * 1000:.0f} ms at worst",
        flush=True,
    )
    print(load())
    return figures


def judge(figures: Figures) -> Goals:
    goals = Goals()
    goals.at_most("a change until another browser shows it", max(figures.delays), 1, " s")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tries", type=int, default=20)
    judge(bench(parser.parse_args().tries)).finish()


if __name__ == "__main__":
    main()
