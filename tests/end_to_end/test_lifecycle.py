"""A workspace's whole life under short TTLs: asleep when idle, archived when forgotten, and back.

A stream of requests to one of them goes on meanwhile, and that one never falls asleep.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.hub import DEMO, Hub, a_hub, until
from tests.end_to_end.moments import NEVER
from tests.end_to_end.visits import request, visit
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)

SECONDS = 6
"""The TTL of the one that is used all the time."""
FORGETFUL = f"{DEMO}, ttl: {{standby: 3s, archive: 3s, busyCpu: off}}"
SLEEPY = f"{DEMO}, ttl: {{standby: 3s, archive: never, busyCpu: off}}"
USED = f"{DEMO}, ttl: {{standby: {SECONDS}s, archive: never, busyCpu: off}}"
KEPT = f"{DEMO}, {NEVER}"
SETTINGS = {
    "COORDINATOR_TTL_INTERVAL": "1",
    "ACTIVITY_FLUSH_INTERVAL": "1",
    "ACTIVITY_SLACK_SECONDS": "1",
}
LOWERED = """
SELECT count(*) FROM workspace_events JOIN workspaces ON workspaces.id = workspace_id
WHERE name = %s AND workspace_events.source = 'ttl' AND kind = 'desired'
"""


class Stream:
    """Somebody who saves in a workspace without a pause; `began` when it last began to.

    To ask for the same page again and again would be a page that polls, and nobody.
    """

    def __init__(self, hub: Hub, path: str) -> None:
        self._hub, self._path = hub, path
        self._ended = threading.Event()
        self.restart()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def restart(self) -> None:
        self.began = self._last = time.monotonic()
        self.longest = 0.0

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            if request(self._hub.port, "PUT", self._path, b"typed").status == 204:
                now = time.monotonic()
                self.longest = max(self.longest, now - self._last)
                self._last = now


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with a_hub(**SETTINGS) as made:
        made.declare(circle=KEPT, sleepy=SLEEPY, used=USED)
        made.start()
        made.until_settled(circle="RUNNING", used="RUNNING")
        yield made


@pytest.fixture(scope="module")
def stream(hub: Hub) -> Iterator[Stream]:
    made = Stream(hub, "/w/used/api/notes")
    try:
        yield made
    finally:
        made.end()


def redeclare(hub: Hub, circle: str) -> None:
    """As somebody who edits the specs while the hub runs, until they are loaded."""
    query = "SELECT count(*) FROM spec_revisions"
    (before,) = hub.ask(query)
    hub.declare(circle=circle, sleepy=SLEEPY, used=USED)
    until(lambda: hub.ask(query) != [before], "another revision")


def test_the_full_circle_keeps_every_file(hub: Hub, stream: Stream) -> None:
    notes = b"written in its page"
    assert request(hub.port, "PUT", "/w/circle/api/notes", notes).status == 204
    fill_home(hub.home("circle"))
    first = hub.home("circle")
    before = describe(first)

    redeclare(hub, FORGETFUL)
    hub.until_settled(circle="STANDBY")
    assert describe(first) == before
    rows = hub.until_settled(circle="ARCHIVED")
    assert rows["circle"].home is None
    assert list(first.parent.glob(f"*{rows['circle'].id}*")) == []
    assert visit(hub.port, "/w/circle/").status == 502, "nobody restores by passing by"

    redeclare(hub, KEPT)
    hub.tell("restore", "circle", "--start", "--wait")

    assert hub.until_settled(circle="RUNNING")["circle"].error_count == 0
    assert hub.home("circle") != first, "a generation of its own"
    assert describe(hub.home("circle")) == before
    assert request(hub.port, "GET", "/w/circle/api/notes").body == notes
    history = hub.tell("events", "circle").out
    stages = ["RUNNING -> STANDBY", "STANDBY -> ARCHIVED", "ARCHIVED -> STANDBY"]
    places = [history.index(f"phase      {each}") for each in stages]
    assert places == sorted(places)
    assert "by ttl" in history


def test_a_visit_wakes_and_a_program_does_not(hub: Hub, stream: Stream) -> None:
    hub.until_settled(sleepy="STANDBY")
    (before,) = hub.ask(LOWERED, "sleepy")
    assert before[0] > 0, "it was idleness that stopped it"

    asked = request(hub.port, "GET", "/w/sleepy/api/info")
    assert (asked.status, hub.rows()["sleepy"].desired) == (503, "STANDBY")
    assert asked.headers["content-type"] == "application/problem+json"

    first = visit(hub.port, "/w/sleepy/")
    assert (first.status, "retry-after" in first.headers) == (503, True)
    assert b"sleepy" in first.body
    assert until(lambda: visit(hub.port, "/w/sleepy/").status == 200, "its page")


def test_whoever_uses_it_keeps_it_awake(hub: Hub, stream: Stream) -> None:
    """A pause of the stream itself, on a machine that is too busy, proves nothing: begin again."""
    for _ in range(5):
        until(lambda: time.monotonic() > stream.began + 3 * SECONDS, "some time")
        lowered = hub.ask(LOWERED, "used")[0][0]
        if stream.longest < SECONDS:
            break
        hub.tell("start", "used", "--wait")
        stream.restart()
    assert stream.longest < SECONDS, "the machine never let us ask without a pause"
    assert lowered == 0
    hub.until_settled(used="RUNNING")
