"""What an import brought back, what it did not, and what is left to do for a person."""

from __future__ import annotations

import shlex
from itertools import chain
from typing import TYPE_CHECKING, Final

from codehub.core.rebuild import find_forsaken
from codehub.model.workspace import Runtime
from codehub.render.gc_text import readable
from codehub.render.table import table
from codehub.render.words import clean, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.salvage import Flawed, Forsaken, Home, LeftBehind, LeftOut, Rebuild

OUTDATED: Final = "a newer archive is damaged"
FORSAKEN: Final = """\
Homes that no imported workspace has, most of them never archived. They stay, but applying makes
new, empty ones in their place. Before that, copy out what people need, as root on their machine
"""
LISTING: Final = "docker volume ls --filter label=dev.codehub.hub={hub}"


def import_text(
    plan: Rebuild, left: LeftBehind, directory: str, files: int, *, dry_run: bool
) -> str:
    """The whole story; `files` is how many specs were, or would be, written below `directory`."""
    forsaken = find_forsaken(left, plan)
    parts = [
        *_homes(plan.homes),
        *_left_out(plan.left_out),
        *_flawed(plan.flawed),
        *_forsaken(forsaken, left),
        *_unseen(plan, left),
        _summary(plan, directory, files, dry_run=dry_run),
        *_doubt(plan, left),
    ]
    if (plan.homes or files) and not dry_run:
        parts.append(_next(directory, copy=bool(forsaken or left.unseen)))
    return "\n".join(parts)


def _homes(homes: tuple[Home, ...]) -> Iterator[str]:
    if homes:
        head = ("WORKSPACE", "OWNER", "ARCHIVED", "SIZE", "OLDER", "NOTE")
        yield table(head, [_row(each) for each in homes])


def _row(home: Home) -> tuple[str, ...]:
    return (
        clean(home.name),
        clean(home.owner),
        f"{home.archive.created_at:%Y-%m-%d %H:%M %Z}",
        readable(home.archive.bytes),
        str(home.older),
        OUTDATED if home.outdated else "",
    )


def _left_out(left_out: tuple[LeftOut, ...]) -> Iterator[str]:
    if left_out:
        lines = (
            f"  {clean(each.name) or 'unknown'} ({each.id}): {clean(each.why)}\n"
            f"    {clean(each.advice)}\n"
            for each in left_out
        )
        yield "".join(chain(["Not imported\n"], lines))


def _flawed(flawed: tuple[Flawed, ...]) -> Iterator[str]:
    if flawed:
        lines = (f"  {clean(each.key)}\n    {clean(each.why)}\n" for each in flawed)
        yield "".join(chain(["Archives that cannot be used, left where they are\n"], lines))


def _forsaken(forsaken: tuple[Forsaken, ...], left: LeftBehind) -> Iterator[str]:
    """Whose they are is known by the name at most: applying its spec makes another workspace."""
    if forsaken:
        lines = (
            f"  {each.workspace or 'unknown'} ({each.volume.workspace_id}), on {each.runtime}\n"
            f"    {_copy(each, left.folder)}\n"
            for each in forsaken
        )
        yield "".join(chain([FORSAKEN], lines))


def _copy(forsaken: Forsaken, folder: str) -> str:
    """A line for the shell of the machine that has the home."""
    name = forsaken.volume.name
    place = f"\"$(docker volume inspect --format '{{{{.Mountpoint}}}}' {name})\""
    if forsaken.runtime is Runtime.PROCESS:
        place = shlex.quote(f"{folder}/{name}")
    return clean(f"tar -C {place} -cf {name}.tar .")


def _unseen(plan: Rebuild, left: LeftBehind) -> Iterator[str]:
    listing = {
        Runtime.DOCKER: LISTING.format(hub=plan.hub_id),
        Runtime.PROCESS: f"ls {shlex.quote(left.folder)}",
    }
    for runtime, why in sorted(left.unseen.items()):
        yield (
            f"Homes on {runtime} could not be looked for: {clean(why)}\n"
            "  Before you apply, copy out what people need of those without an archive. This lists "
            f"all:\n    {clean(listing[runtime])}\n"
        )


def _summary(plan: Rebuild, directory: str, files: int, *, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    place = clean(directory)
    lines = [
        f"Hub {plan.hub_id}: {counted(len(plan.homes), 'workspace')} {would}imported, "
        f"{counted(files, 'spec')} {would}written below {place}."
    ]
    if plan.present:
        lines.append(f"{counted(plan.present, 'workspace')} known already, left as before.")
    if plan.unfinished:
        lines.append(f"{counted(plan.unfinished, 'archive')} never finished, not looked at.")
    if plan.homes:
        lines.append(
            f"No archive {'would be' if dry_run else 'is'} collected until somebody says "
            "'codehub gc --confirm-restored'."
        )
    if plan.left_out:
        lines.append("Workspaces that are not imported keep their archives until then.")
    return "\n".join(lines) + "\n"


def _doubt(plan: Rebuild, left: LeftBehind) -> Iterator[str]:
    """Archives do not tell a runtime, and it was not plain from anything else."""
    engine = Runtime.DOCKER in left.marked or Runtime.DOCKER in left.unseen
    if engine and any(each.runtime is Runtime.PROCESS for each in plan.homes):
        yield "Specs say 'runtime: process': correct those of workspaces that ran on Docker.\n"


def _next(directory: str, *, copy: bool) -> str:
    place = clean(shlex.quote(directory))
    steps = [
        *(["copy out the homes without an archive: see above"] if copy else []),
        f"fill in what the comments in {place} ask for, or apply the specs you have in git",
        f"codehub plan {place}, then codehub apply {place}",
        "start the coordinator, and look at 'codehub status'",
        "when all is back: codehub gc --confirm-restored",
    ]
    return "Next:\n" + "".join(f"  {number}. {step}\n" for number, step in enumerate(steps, 1))
