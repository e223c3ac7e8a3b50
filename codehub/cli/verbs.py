"""The table of verbs: what `codehub --help` lists, without importing any of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's name, its one-line summary, and whether it is a group of its own (`db upgrade`).

    Its module below `codehub.cli` has a function `command`, or for a group a Typer `app`.
    """

    name: str
    summary: str
    module: str = ""
    group: bool = False

    @property
    def path(self) -> str:
        return f"codehub.cli.{self.module or self.name}"


VERBS = (
    Verb("init", "Write example specs to start from."),
    Verb("validate", "Check the specs and list everything that is wrong."),
    Verb("fmt", "Rewrite spec files in canonical order, comments kept."),
    Verb("schema", "Print the JSON Schema of the specs, for editors."),
    Verb("plan", "Show what applying the specs would change, and why."),
    Verb("show", "Show a saved plan."),
    Verb("apply", "Load the specs into the hub, after showing the plan."),
    Verb("status", "List the workspaces and where they stand."),
    Verb("history", "List the revisions the hub has loaded."),
    Verb("db", "Prepare the hub's database or tell its version.", module="database", group=True),
    Verb("up", "Run everything on this machine."),
)
