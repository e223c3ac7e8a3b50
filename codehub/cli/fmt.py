"""`codehub fmt`: spec files in canonical order, comments kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from codehub.specs.fmt import Formatted


def command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Directories and files (default: specs)."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit with 1 if a file would change."),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="As --check, and show what would change.")
    ] = False,
) -> None:
    """Rewrite spec files: fields in canonical order, two columns of indentation.

    Comments, quotes, long lines and everything else stay as they were written, and no default
    is filled in. A comment above a field or at the end of its line moves with the field; the
    comments a document opens with stay on top. A file that cannot be put in order without
    losing something is left as it is, and the reason told.

    Example: codehub fmt specs --check --diff
    """
    from codehub.errors import SpecsInvalid
    from codehub.specs.fmt import find_files, format_file, write_formatted

    names, problems = find_files(paths or [Path("specs")])
    changed = 0
    for name, path in names.items():
        formatted = format_file(path, name)
        if formatted.problem is not None:
            problems.append(formatted.problem)
        elif formatted.changes:
            changed += 1
            if check or diff:
                _show(name, formatted, diff=diff)
            else:
                write_formatted(formatted)
                typer.echo(f"formatted {name}")
    if problems:
        raise SpecsInvalid(problems, hint="the files named above are unchanged")
    typer.echo(_summary(len(names), changed, writing=not (check or diff)), err=diff)
    if changed and (check or diff):
        raise typer.Exit(1)


def _show(name: str, formatted: Formatted, *, diff: bool) -> None:
    if not diff:
        typer.echo(f"would format {name}")
        return
    import difflib

    old = formatted.before.decode().splitlines(keepends=True)
    new = formatted.after.decode().splitlines(keepends=True)
    for line in difflib.unified_diff(old, new, name, name):
        whole = line.endswith("\n")
        typer.echo(line if whole else f"{line}\n\\ No newline at end of file", nl=not whole)


def _summary(files: int, changed: int, *, writing: bool) -> str:
    rest = f"{files - changed} already in order"
    if not changed:
        return f"{files} file{'' if files == 1 else 's'} already in order."
    verb = "formatted" if writing else "would change"
    return f"{changed} file{'' if changed == 1 else 's'} {verb}, {rest}."
