"""How a sentence says what to do next: with commands, or with the buttons of the page it is on."""

from __future__ import annotations

from enum import Enum


class Voice(Enum):
    """Of whom it speaks to; who looks at a page may have no command line at all."""

    COMMANDS = "commands"
    BUTTONS = "buttons"
