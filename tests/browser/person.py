"""Somebody at a browser: who moves the mouse while they wait, and types one key at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.browser.driven import Tab

PATIENCE = 90.0
SHIFT = 8


class Person:
    """One window, and whoever looks at it."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self._moves = 0

    def wiggle(self) -> None:
        """The mouse is moved a little, where there is nothing."""
        self._moves += 1
        self.tab.ask("Input.dispatchMouseEvent", type="mouseMoved", x=3 + self._moves % 5, y=3)

    def wait(self, script: str) -> None:
        """Until an expression holds in the page, not without moving the mouse."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            self.wiggle()
            if self.sees(script):
                return
            self.rest(0.2)
        raise TimeoutError(f"never: {script}; the page is {self.tab.text!r}")

    def sees(self, script: str) -> bool:
        try:
            return bool(self.tab.value(f"!!({script})"))
        except RuntimeError:
            return False  # between two documents there is nothing to see

    def rest(self, seconds: float) -> None:
        """Do nothing for a while; what the page says meanwhile is taken in."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            self.tab._pipe.gather(left)

    def reload_by_itself(self) -> None:
        """The page loads itself anew, with nobody there but to let unsaved things go."""
        known = len(self.tab.events)
        self.tab.value("void setTimeout(() => location.reload())")
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            self.rest(0.05)
            fresh = [each["method"] for each in self.tab.events[known:]]
            known += len(fresh)
            if "Page.javascriptDialogOpening" in fresh:
                self.tab.ask("Page.handleJavaScriptDialog", accept=True)
            if "Page.frameNavigated" in fresh:
                return
        raise TimeoutError("the page did not load itself anew")

    def click(self, selector: str) -> None:
        self.wait(f"document.querySelector({selector!r})")
        self.tab.click(selector)

    def type(self, text: str) -> None:
        """Key by key, as a keyboard does."""
        for char in text:
            self.key(char, text=char)

    def key(self, name: str, *, text: str = "", code: int = 0, modifiers: int = 0) -> None:
        given = {"key": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.tab.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **given)
        self.tab.ask("Input.dispatchKeyEvent", type="keyUp", **given)

    def enter(self, *, shift: bool = False) -> None:
        self.key("Enter", text="\r", code=13, modifiers=SHIFT if shift else 0)
