"""A real hub with people and workspaces, and people at browsers who look at its dashboard."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codehub.service.links import create_login_link
from codehub.store.connect import connect
from tests.browser.driven import PATIENCE, driven
from tests.conftest import require
from tests.end_to_end.hub import DEMO, Hub, a_hub, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.driven import Tab

GRAVE = {"serious", "critical"}
NEVER = {"scrollable-region-focusable"}
"""However grave it is: what cannot be scrolled with keys cannot be read."""
SOON = {
    "COORDINATOR_IDLE_INTERVAL": "2",
    "OPERATION_RETRIES": "0",
    "OPERATION_BACKOFF_SECONDS": "0.2",
    "OPERATION_BACKOFF_MAX_SECONDS": "0.5",
    # What is seen in a browser was told to it: nobody looks for what nobody told of.
    "WEB_LOOK_SECONDS": "600",
}
HEAD = """\
apiVersion: codehub.dev/v1
kind: Hub
metadata: {name: atlas}
spec: {maxRunningPerUser: 2, defaultRuntime: process}
---
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
spec: {}
---
apiVersion: codehub.dev/v1
kind: User
metadata: {name: root}
spec: {role: admin, maxRunning: 20}
"""
WORKSPACE = """\
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {name: %s}
spec: {owner: %s, startOn: visit, %s}
"""
FAILS = 'command: [sh, -c, "echo no luck; exit 3"]'
SLOW = (
    'command: [sh, -c, "until test -e ready; do sleep 0.1; done; exec python -P -m codehub.demo"]'
)
"""Starts for as long as there is no file `ready` in its home."""


def declare(hub: Hub, **workspaces: str) -> None:
    """Specs with these workspaces of alice's, and one of root's."""
    given = {**workspaces, "roots-own": DEMO}
    owners = {name: "root" if name == "roots-own" else "alice" for name in given}
    text = HEAD + "".join(WORKSPACE % (name, owners[name], body) for name, body in given.items())
    hub.specs.mkdir(exist_ok=True)
    write_specs(hub, text)


def write_specs(hub: Hub, text: str) -> None:
    """All of them at once."""
    draft = hub.directory / "draft"
    draft.write_text(text)
    draft.rename(hub.specs / "all.yaml")


@contextmanager
def dashboard_hub(**workspaces: str) -> Iterator[Hub]:
    """Up, with all of these asleep."""
    with a_hub(**SOON) as hub:
        declare(hub, **workspaces)
        hub.start()
        hub.until_settled(**dict.fromkeys([*workspaces, "roots-own"], "STANDBY"))
        yield hub


class Looking:
    """Somebody who looks at the dashboard, in a browser of their own."""

    def __init__(self, hub: Hub, tab: Tab) -> None:
        self.hub = hub
        self.tab = tab

    def url(self, path: str) -> str:
        return f"http://localhost:{self.hub.port}{path}"

    def open(self, path: str) -> None:
        self.tab.open(self.url(path))

    def log_in(self, name: str) -> None:
        """With a one-time link, as `codehub up` makes them."""

        async def made() -> str:
            async with await connect(self.hub.database_url) as conn:
                return await create_login_link(conn, name)

        self.open(f"/login/link?code={asyncio.run(made())}")
        self.tab.press("Continue")
        # Whole, with its style: what is clicked on stays where it is.
        there = "document.readyState === 'complete' && document.body.classList.contains('dash')"
        self.tab.until(there)

    def until_live(self) -> None:
        self.tab.until("document.querySelector('[data-part=live]')?.textContent === 'Live'")

    def row(self, name: str) -> str:
        return f"document.querySelector('tr[data-row=\"{name}\"]')"

    def until_row(self, name: str, *words: str) -> None:
        """Until the row says all of this, without a reload."""
        text = f"{self.row(name)}?.innerText.replace(/\\s+/g, ' ')"
        self.tab.until(" && ".join(f"{text}.includes({json.dumps(word)})" for word in words))

    def press(self, name: str, action: str) -> None:
        """The button of a workspace; one that asks first is asked, and agreed to."""
        key = f'tr[data-row="{name}"] [data-key="{action}"]'
        self.tab.until(f"document.querySelector({json.dumps(key)})")
        asks = f'tr[data-row="{name}"] [data-key="ask-{action}"]'
        if self.tab.value(f"!!document.querySelector({json.dumps(asks)})"):
            self.tab.click(asks)
            self.tab.until(f"document.querySelector({json.dumps(key)})?.checkVisibility()")
        self.tab.click(key)

    def says(self, text: str) -> None:
        said = "document.body.innerText.replace(/\\s+/g, ' ')"
        self.tab.until(f"{said}.includes({json.dumps(text)})")

    def hide(self) -> None:
        """Look at another tab for a while; `show` comes back."""
        self._turn(away=True)

    def show(self) -> None:
        self._turn(away=False)

    def _turn(self, *, away: bool) -> None:
        value = json.dumps({"value": away, "configurable": True})
        self.tab.value(
            f"Object.defineProperty(document, 'hidden', {value});"
            "void document.dispatchEvent(new Event('visibilitychange'))"
        )

    def has_stayed(self) -> bool:
        """Whether this is the document that was marked."""
        return bool(self.tab.value("window.same === true"))

    def mark(self) -> None:
        self.tab.value("void (window.same = true)")

    def findings(self) -> list[str]:
        return findings(self.tab)

    def key(self, name: str, code: int = 0) -> None:
        text = name if len(name) == 1 else "\r" if name == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            given = {"key": name, "windowsVirtualKeyCode": code}
            shown = {"text": text} if kind == "keyDown" and text else {}
            self.tab.ask("Input.dispatchKeyEvent", type=kind, **given, **shown)

    def asked(self, path: str) -> list[str]:
        """What the page asked for at this path so far: the ends of the addresses."""
        found = (
            each["params"]["request"]["url"].partition(path)
            for each in self.tab.events
            if each["method"] == "Network.requestWillBeSent"
        )
        return [end for _, asked, end in found if asked]

    @property
    def complaints(self) -> list[str]:
        return self.tab.complaints


def findings(tab: Tab) -> list[str]:
    """What axe finds grave about the page."""
    tab.value(_axe() + "; true")
    found: list[dict[str, Any]] = tab.value(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => "
        "({id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html).slice(0, 3)})))"
    )
    return [
        f"{each['id']}: {each['nodes']}"
        for each in found
        if each["impact"] in GRAVE or each["id"] in NEVER
    ]


def _axe() -> str:
    """The rules, as one script."""
    found = find_spec("axe_core_python")
    require("browser", found is not None, "axe-core-python is not installed")
    assert found is not None
    assert found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text()


@contextmanager
def looking(hub: Hub, directory: Path, name: str) -> Iterator[Looking]:
    """Somebody who is logged in."""
    directory.mkdir(parents=True, exist_ok=True)
    with driven(directory) as tab:
        tab.look_like(1400, 900)
        somebody = Looking(hub, tab)
        somebody.log_in(name)
        yield somebody


def until_desired(hub: Hub, name: str, state: str) -> None:
    until(lambda: hub.rows()[name].desired == state, f"{name} {state}", PATIENCE)


def stop_all(hub: Hub, *names: str) -> None:
    """Everything asleep, for the next test."""
    hub.ask(
        "UPDATE workspaces SET desired_state = 'STANDBY', recover_requested = CASE phase"
        " WHEN 'ERROR' THEN 'plain' END WHERE name = ANY(%s) RETURNING name",
        list(names),
    )
    ends = time.monotonic() + PATIENCE
    while any(
        (row.phase, row.operation) != ("STANDBY", "NONE")
        for row in hub.rows().values()
        if row.name in names
    ):
        assert time.monotonic() < ends, hub.rows()
        time.sleep(0.1)
