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
    Verb("explain", "Tell all about one workspace: why, what comes next, what is in its way."),
    Verb("events", "Show the audit: who moved what, when and why."),
    Verb("logs", "Show what a workspace writes."),
    Verb("doctor", "Check the hub and this machine, and say how to fix what is wrong."),
    Verb("report", "Report on the fleet, as a page, as Markdown or as JSON."),
    Verb("render-pages", "Write the report and the error pages.", module="render_pages"),
    Verb("open", "Print and open a workspace's address, or give a login link."),
    Verb("start", "Start workspaces."),
    Verb("stop", "Stop workspaces; their homes stay."),
    Verb("archive", "Move the homes of workspaces to the archive store."),
    Verb("restore", "Bring the homes of archived workspaces back."),
    Verb("delete", "Delete workspaces that no spec declares."),
    Verb("undelete", "Bring deleted workspaces back."),
    Verb("recover", "Take workspaces out of ERROR."),
    Verb("override", "Let a workspace go above its spec, or hold it below, for a while."),
    Verb("touch", "Say that somebody still works in workspaces."),
    Verb("history", "List the revisions the hub has loaded."),
    Verb("gc", "Delete archives that nothing needs, or show each one's fate."),
    Verb("import", "Bring a hub back whose database was lost.", module="import_"),
    Verb("rollback", "Load an older revision's specs again."),
    Verb("diff", "Show what differs between two revisions."),
    Verb("drift", "Show where reality differs from what was last applied."),
    Verb("user", "Make what a user's spec needs.", group=True),
    Verb("token", "Make, list and revoke tokens for programs.", group=True),
    Verb("webhooks", "List webhooks, test them, and try again what failed.", group=True),
    Verb("db", "Prepare the hub's database or tell its version.", module="database", group=True),
    Verb("serve", "Run a production process.", group=True),
    Verb("up", "Run everything on this machine."),
)
