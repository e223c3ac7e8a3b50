"""JupyterLab and other real applications behind the proxy, and somebody who uses them or does not.

Everything is real: `codehub up`, its proxy and coordinator, the applications, and Chromium. Idle
times are some seconds, but only where a test is about them: until then, however long a busy machine
takes to get there, idleness is put off. The tests are a story and run in their order: what is open
stays open.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.browser.driven import driven
from tests.browser.person import Person
from tests.conftest import require
from tests.end_to_end.hub import DEMO, a_hub, until
from tests.end_to_end.visits import cookie

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tests.end_to_end.hub import Hub

pytestmark = pytest.mark.timeout(120, func_only=True)

PATIENCE = 100.0
"""Seconds for one thing that is waited for."""
FIRST_PATIENCE = 280.0
"""And for what is only waited for before the first test."""

TTL = 15
"""Seconds. A page tells of input every three of them."""
LATE = 5
"""Seconds in which a look has surely been taken on a machine that has time for it."""
GAP = 8
"""Who could not type for so many seconds sat at a machine that was too busy to prove anything."""
SETTINGS = {
    "COORDINATOR_TTL_INTERVAL": "2",
    "ACTIVITY_FLUSH_INTERVAL": "0.5",
    "ACTIVITY_SLACK_SECONDS": "2",
    "OPERATION_STARTING_SECONDS": "280",
    "OPERATION_STOP_GRACE_SECONDS": "2",
}
SHORT = f"ttl: {{standby: {TTL}s, archive: never}}"
LAB = (
    f"command: [sh, -c, 'exec {sys.executable} -m jupyterlab --no-browser --ip=127.0.0.1"
    " --port=$PORT --ServerApp.port_retries=0 --ServerApp.base_url=$CODEHUB_BASE_PATH"
    " --IdentityProvider.token= --ServerApp.allow_root=True --ServerApp.root_dir=$HOME"
    f" --LabApp.news_url='], pathPrefix: keep, {SHORT}"
)
# A page with a policy that lets no script in but its own, and which is busy all the time.
STRICT_APP = '''
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
PAGE = b"""<!doctype html><html><head><title>strict</title></head><body><h1>Strict</h1>
<script nonce="own">setInterval(() => fetch("save", {method: "POST"}), 1000)</script></body>"""
POLICY = "default-src 'none'; script-src 'nonce-own'; connect-src 'self'"
class App(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(PAGE)
    def do_POST(self):
        self.answer(b"{}")
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), App).serve_forever()
'''
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "cells": [
        {
            "id": "one",
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": "print(6 * 7)",
        }
    ],
}
OUTPUT = "document.querySelector('.jp-OutputArea-output')"
LOOPS = "touch ~/begun; for n in 1 2 3 4; do while [ ! -e ~/done ]; do :; done & done"
TERMINAL = ".jp-Terminal .xterm-screen"
IDLE_KERNEL = "document.body.innerText.includes('(ipykernel) | Idle')"
OTHERS = ("demo", "plain", "strict")
# When a page can be used.
READY = {
    "demo": "document.querySelector('#notes:not(:disabled)')",
    "plain": "document.querySelector('#notes:not(:disabled)')",
    "strict": "document.querySelector('h1')?.innerText === 'Strict'",
}
ROW = """
SELECT phase, operation, desired_state, last_access_source FROM workspaces WHERE name = %s
"""
LASTS = "UPDATE workspaces SET phase_changed_at = now() + %s WHERE name = ANY(%s) RETURNING now()"
"""Idle time counts from there at the earliest."""
WORKED = "SELECT last_access_at FROM workspaces WHERE name = %s AND last_access_source = 'cpu'"
STOPS = "SELECT count(*) FROM workspace_events WHERE workspace_name = %s AND new = 'STOPPING'"
VISITS = "SELECT count(*) FROM workspace_events WHERE workspace_name = %s AND source = 'visit'"


@dataclass
class Desk:
    """A hub, and somebody with a window for each of its workspaces."""

    hub: Hub
    windows: dict[str, Person] = field(default_factory=dict)

    def open(self, name: str, path: str = "") -> Person:
        """Go to a workspace's address."""
        person = self.windows[name]
        person.tab.ask("Page.navigate", url=self.url(name, path), transitionType="typed")
        return person

    def url(self, name: str, path: str = "") -> str:
        return f"http://localhost:{self.hub.port}/w/{name}/{path}"

    def row(self, name: str) -> tuple[str, str, str, str | None]:
        phase, operation, desired, source = self.hub.ask(ROW, name)[0]
        return phase, operation, desired, source

    def runs(self, name: str) -> bool:
        return self.row(name)[:3] == ("RUNNING", "NONE", "RUNNING")

    def sleeps(self, name: str) -> bool:
        return self.row(name)[:3] == ("STANDBY", "NONE", "STANDBY")

    def stops(self, name: str) -> int:
        return int(self.hub.ask(STOPS, name)[0][0])

    def visits(self, name: str) -> int:
        return int(self.hub.ask(VISITS, name)[0][0])

    def tags(self, name: str) -> int:
        """Scripts of the hub's in the page."""
        person = self.windows[name]
        return int(person.tab.value("document.querySelectorAll('script[data-codehub]').length"))

    def asks(self, name: str) -> int:
        """How often the page has asked for something so far, by a request or a WebSocket."""
        kinds = ("Network.requestWillBeSent", "Network.webSocketCreated")
        return sum(each.get("method") in kinds for each in self.windows[name].tab.events)

    def keep(self, *names: str) -> None:
        """Whatever these do or do not do, they run on."""
        self.hub.ask(LASTS, timedelta(hours=1), list(names))

    def let_go(self, *names: str) -> datetime:
        """From now on, which this returns, their idleness counts."""
        moment: datetime = self.hub.ask(LASTS, timedelta(0), list(names))[0][0]
        return moment


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """All windows are open and can be used. What takes long is waited for here."""
    found = importlib.util.find_spec("jupyterlab") is not None
    require("jupyter", found, "JupyterLab is not installed")
    directory = tmp_path_factory.mktemp("browser")
    app = directory / "strict.py"
    app.write_text(STRICT_APP)
    with a_hub(**SETTINGS) as hub, driven(directory) as tab:
        hub.declare(
            lab=LAB,
            demo=f"{DEMO}, {SHORT}",
            plain=f"{DEMO}, inject: false, {SHORT}",
            strict=f"command: [{sys.executable}, {app}], {SHORT}",
        )
        hub.start()
        name, _, secret = cookie(hub.port).partition("=")
        tab.ask("Network.setCookie", name=name, value=secret, url=f"http://localhost:{hub.port}/")
        made = Desk(hub, {each: Person(tab.beside()) for each in ("lab", *OTHERS)})
        with telling_what_jupyterlab_said(hub):
            until(lambda: keeps_running(made, "lab"), "JupyterLab", FIRST_PATIENCE)
            (hub.home("lab") / "work.ipynb").write_text(json.dumps(NOTEBOOK))
            made.open("lab", "lab/tree/work.ipynb")
            until(lambda: made.windows["lab"].sees(IDLE_KERNEL), "a notebook", FIRST_PATIENCE)
        until(lambda: sits_down(made), "all of them at once", FIRST_PATIENCE)
        yield made


def keeps_running(desk: Desk, name: str) -> bool:
    """Whether it runs; then it is not to fall asleep before anybody could look at it."""
    desk.keep(name)
    return desk.runs(name)


@contextmanager
def telling_what_jupyterlab_said(hub: Hub) -> Iterator[None]:
    """A start that fails is no riddle."""
    try:
        yield
    except AssertionError as error:
        told = hub.run("explain", "lab"), hub.run("logs", "lab", "--lines", "60")
        words = "\n".join(f"{each.out}{each.err}" for each in told)
        raise AssertionError(f"{error}\n{words}\n{hub.said(hub.up)[-2000:]}") from None


def sits_down(desk: Desk) -> bool:
    """Whether all windows are ready to be used; those that are not are opened, or waited for.

    Of the lab it is enough that it runs: what is in it is opened by who uses it.
    """
    desk.keep("lab", *OTHERS)
    awake = {name: desk.runs(name) for name in ("lab", *OTHERS)}
    there = {name: desk.windows[name].sees(READY[name]) for name in OTHERS}
    for name in OTHERS:
        new = desk.windows[name].tab.address == "about:blank"
        if new or (there[name] and not awake[name]):
            desk.open(name)
    if not all(there.values()) or not all(awake.values()):
        desk.windows["lab"].rest(0.3)
        return False
    for name in ("demo", "plain"):
        desk.windows[name].tab.click("#notes")
    return True


def stay(desk: Desk, seconds: float, *, typing: dict[str, str]) -> bool:
    """Type one key at a time into these windows; whether that went on without a long pause."""
    begun = last = time.monotonic()
    while time.monotonic() - begun < seconds:
        for name, char in typing.items():
            desk.windows[name].type(char)
            desk.windows[name].rest(0.3)
        now = time.monotonic()
        if now - last > GAP:
            print(f"nobody could type for {now - last:.1f} s")  # noqa: T201
            return False
        last = now
    return True


def test_a_notebook_and_a_terminal_work(desk: Desk) -> None:
    lab = desk.windows["lab"]
    assert desk.tags("lab") == 1

    def ran() -> bool:
        lab.click(".jp-Notebook .jp-CodeCell .cm-content")
        lab.enter(shift=True)
        lab.rest(1)
        return lab.sees(f"{OUTPUT}.innerText.trim() === '42'")

    until(ran, "what the cell prints", PATIENCE)
    lab.click("#jp-main-dock-panel .lm-TabBar-addButton")
    lab.click(".jp-LauncherCard[title*='terminal']")
    lab.click(TERMINAL)
    proof = desk.hub.home("lab") / "proof"

    def told() -> bool:
        lab.type("echo $((6*7)) > ~/proof")
        lab.enter()
        lab.rest(1)
        return proof.exists() and proof.read_text() == "42\n"

    until(told, "what the terminal was told", PATIENCE)
    until(lambda: desk.row("lab")[3] == "input", "what its person did", PATIENCE)


def test_one_key_at_a_time_keeps_a_workspace_awake(desk: Desk) -> None:
    """By what the page tells; and by what passes, where no page can tell."""
    assert {name: desk.tags(name) for name in OTHERS} == {"demo": 1, "plain": 0, "strict": 0}
    names = ("lab", *OTHERS)
    typing = {"lab": "x", "demo": "y", "plain": "z"}

    def typed_on() -> bool:
        if not sits_down(desk):
            return False
        stay(desk, 1, typing=typing)
        before = {name: desk.stops(name) for name in names}
        desk.let_go(*names)
        if not stay(desk, TTL + LATE, typing=typing):
            return False
        assert {name: desk.stops(name) for name in names} == before
        assert all(desk.runs(name) for name in names)
        desk.keep(*names)
        return True

    until(typed_on, "a machine that has time for somebody who types", PATIENCE - TTL - LATE)
    sources = {name: desk.row(name)[3] for name in names}
    assert sources == {"lab": "input", "demo": "input", "plain": "traffic", "strict": "traffic"}
    assert "zzz" in (desk.hub.home("plain") / "notes.txt").read_text()


def test_work_without_a_person_keeps_it_awake_and_an_untouched_page_does_not(desk: Desk) -> None:
    until(lambda: sits_down(desk), "all of them at once", PATIENCE)
    lab, before = desk.windows["lab"], desk.stops("lab")
    lab.click(TERMINAL)
    lab.enter()  # what was typed so far is no command
    lab.type(LOOPS)
    lab.enter()
    until(lambda: (desk.hub.home("lab") / "begun").exists(), "the loops", PATIENCE)
    begun = desk.let_go("lab", "demo")

    def outlived() -> bool:
        lab.rest(0.3)
        worked = desk.hub.ask(WORKED, "lab")
        return bool(worked) and worked[0][0] > begun + timedelta(seconds=TTL)

    until(outlived, "work after its idle time was over", PATIENCE)
    assert desk.runs("lab")
    assert desk.stops("lab") == before
    until(lambda: desk.sleeps("demo"), "the end of an open, untouched page", PATIENCE)
    desk.keep("lab")
    (desk.hub.home("lab") / "done").touch()


def test_an_untouched_jupyterlab_falls_asleep_though_it_asks_all_the_time(desk: Desk) -> None:
    asked = desk.asks("lab")
    desk.let_go("lab")

    def ended() -> bool:
        desk.windows["lab"].rest(0.5)
        return desk.sleeps("lab")

    until(ended, "the end of it", PATIENCE)
    assert desk.asks("lab") > asked, "it was not as silent as its person"


def test_a_forgotten_tab_wakes_nothing(desk: Desk) -> None:
    """Both ask again and again by themselves; then they even load themselves anew."""
    names = ("lab", "demo")
    before = {name: desk.visits(name) for name in names}
    for name in names:
        page, asked = desk.windows[name], desk.asks(name)
        until(lambda: asks_again(desk, name, asked), f"{name} asks by itself", PATIENCE)  # noqa: B023
        page.reload_by_itself()
        page.tab.until("document.body.innerText.includes('is asleep')")
        page.rest(1)
    assert all(desk.sleeps(name) for name in names)
    assert {name: desk.visits(name) for name in names} == before


def asks_again(desk: Desk, name: str, asked: int) -> bool:
    desk.windows[name].rest(0.3)
    return desk.asks(name) > asked


def test_whoever_comes_back_finds_everything_as_it_was(desk: Desk) -> None:
    lab = desk.open("lab", "lab/tree/work.ipynb")
    until(lambda: keeps_running(desk, "lab"), "JupyterLab once more", PATIENCE)
    lab.wait("document.querySelector('.jp-Notebook .jp-CodeCell')")
    assert (desk.hub.home("lab") / "proof").read_text() == "42\n"
