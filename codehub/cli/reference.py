"""`docs/reference/commands.md`, made from the commands' own help.

`python -m codehub.cli.reference` prints it, and a test compares the page with that.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys

from codehub.cli.main import run
from codehub.cli.verbs import VERBS

INTRODUCTION = """# Commands

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 an error, 64 a wrong command
line, 130 interrupted; `plan --exit-code` has more. `--debug` shows where an
error came from. `codehub --install-completion` sets up your shell.
"""
SUBCOMMANDS = {
    "user": ("hash-password",),
    "token": ("create", "list", "revoke"),
    "webhooks": ("list", "test", "retry"),
    "db": ("upgrade", "current"),
    "serve": ("coordinator",),
}


def commands_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for verb in VERBS:
        names = [
            [verb.name, *rest] for rest in [[], *([s] for s in SUBCOMMANDS.get(verb.name, ()))]
        ]
        parts += [_section(words) for words in names]
    return "\n".join(parts)


def _section(words: list[str]) -> str:
    return f"## codehub {' '.join(words)}\n\n```text\n{_help(words)}\n```\n"


def _help(words: list[str]) -> str:
    """What `--help` says, at a width that does not depend on who asks."""
    out = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "96"
    try:
        with contextlib.redirect_stdout(out):
            run([*words, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


if __name__ == "__main__":
    sys.stdout.write(commands_page())
