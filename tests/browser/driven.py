"""Chromium, driven step by step: real clicks, keys and navigations, and all it complains of.

It is spoken to over a pair of pipes (Chrome DevTools Protocol), so nothing else need be installed
and no port is opened. What is waited for is waited for by asking the page, never by the clock.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from base64 import b64decode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.browser.chromium import find_chromium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE = 60.0
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe", "--disable-extensions"),
)


class Pipe:
    """The protocol: questions with numbers, answers with the same, and events in between."""

    def __init__(self, out: int, back: int) -> None:
        self._out = out
        self._back = back
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + PATIENCE
        while True:
            answer = self._next(ends)
            if answer.get("id") != number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            result: dict[str, Any] = answer["result"]
            return result

    def gather(self, seconds: float = 0.0) -> None:
        """Take in what has come meanwhile."""
        ends = time.monotonic() + seconds
        while b"\0" in self._rest or self._is_there(max(0.0, ends - time.monotonic())):
            self.events.append(self._next(time.monotonic() + PATIENCE))

    def _is_there(self, seconds: float) -> bool:
        return bool(select.select([self._back], [], [], seconds)[0])

    def _next(self, ends: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = ends - time.monotonic()
            if left <= 0 or not self._is_there(left):
                raise TimeoutError("the browser gives no answer")
            piece = os.read(self._back, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self._rest += piece
        raw, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(raw)
        return found


class Tab:
    """One tab."""

    def __init__(self, pipe: Pipe, *, window: bool = False) -> None:
        self._pipe = pipe
        made = pipe.ask("Target.createTarget", url="about:blank", newWindow=window)
        target = made["targetId"]
        attached = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def beside(self) -> Tab:
        """Another one, in a window of its own: both are in sight."""
        return Tab(self._pipe, window=True)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._pipe.ask(method, self._session, **params)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All that the browser told of this tab so far."""
        return [each for each in self._pipe.events if each.get("sessionId") == self._session]

    def look_like(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the screen, and the colours its owner prefers."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme, still])

    def stop_the_clock(self) -> None:
        """What pages are opened from now on know one moment only."""
        self.ask("Page.addScriptToEvaluateOnNewDocument", source="Date.now = () => 0")

    def open(self, url: str) -> None:
        """Go there, as if it were typed."""
        self._go(url)
        # A browser lets go of everything when a network of the machine comes or goes, as those of
        # containers do in other tests.
        ends = time.monotonic() + PATIENCE
        while self.value("location.protocol") == "chrome-error:" and time.monotonic() < ends:
            self._go(url)

    def _go(self, url: str) -> None:
        self.ask("Page.navigate", url=url, transitionType="typed")
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, script: str) -> Any:
        """What an expression gives in the page, past its policy."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression holds, through navigations."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            try:
                if self.value(f"!!({script})"):
                    return
            except RuntimeError:
                pass  # between two documents there is nothing to ask
            self._pipe.gather(0.02)
        raise TimeoutError(f"never: {script}; the page is {self.text!r}")

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        box = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    def press(self, label: str) -> None:
        """Click the button that says this."""
        found = (
            "[...document.querySelectorAll('button, a.button, summary')]"
            f".find(e => e.textContent.replace(/\\s+/g, ' ').trim() === {json.dumps(label)})"
        )
        self.until(found)
        self.value(f"{found}.setAttribute('data-pressed', '')")
        self.click("[data-pressed]")

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def key(self, name: str) -> None:
        code = {"Enter": 13, "Tab": 9, "Escape": 27, "Backspace": 8}[name]
        text = "\r" if name == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, text=text
            )

    @property
    def text(self) -> str:
        try:
            found: str = self.value("document.body ? document.body.innerText : ''")
        except RuntimeError:
            return ""
        return found

    @property
    def address(self) -> str:
        found: str = self.value("location.href")
        return found

    def picture(self) -> bytes:
        return b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console; documents that are errors by themselves aside."""
        self._pipe.gather()
        found = []
        for event in self._pipe.events:
            if event.get("sessionId") != self._session:
                continue
            params = event.get("params", {})
            if event["method"] == "Log.entryAdded":
                entry = params["entry"]
                said = f"{entry['text']} {entry.get('url', '')}"
                if entry["level"] in ("error", "warning") and not self._is_document(entry):
                    found.append(said)
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] != "log":
                found.append(str(params["args"]))
        return found

    def _is_document(self, entry: dict[str, Any]) -> bool:
        """A page with a status such as 503 is told of as a failed load, of the page itself."""
        if "status of" not in entry["text"]:
            return False
        loads = [
            event["params"]
            for event in self._pipe.events
            if event["method"] == "Network.responseReceived"
            and event["params"]["requestId"] == entry.get("networkRequestId")
        ]
        return any(load["type"] == "Document" for load in loads)


@contextmanager
def driven(directory: Path) -> Iterator[Tab]:
    """A tab of a browser with a profile of its own; both are gone at the end."""
    program = find_chromium()
    (inward, out), (back, outward) = _pipe(), _pipe()
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    ends = [(os.POSIX_SPAWN_DUP2, inward, 3), (os.POSIX_SPAWN_DUP2, outward, 4)]
    words = [program, *FLAGS, f"--user-data-dir={directory / 'profile'}"]
    # A group of its own, so that it ends with all the processes it has started.
    process = os.posix_spawn(
        program, words, os.environ, file_actions=[*nothing, *ends], setpgroup=0
    )
    for each in (inward, outward):
        os.close(each)
    try:
        yield Tab(Pipe(out, back))
    finally:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        for each in (out, back):
            os.close(each)


def _pipe() -> tuple[int, int]:
    """Two ends whose numbers are none of those that the browser is given."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
