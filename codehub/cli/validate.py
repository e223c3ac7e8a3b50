"""`codehub validate`: everything that is wrong in the specs, all at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from codehub.cli.options import RefOption, SpecsArgument
from codehub.errors import SpecsInvalid


class ValidateFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    directory: SpecsArgument = Path("specs"),
    ref: RefOption = None,
    output: Annotated[
        ValidateFormat, typer.Option("--format", help="How to show the result.")
    ] = ValidateFormat.TEXT,
) -> None:
    """Check the specs and list everything that is wrong. Needs no hub, changes nothing.

    Exits with 0 when all is well, with 1 when there are problems: each with its file, line and
    column, the field, and the line itself.

    Example: codehub validate specs --ref origin/main
    """
    from codehub.specs.load import load_specs

    try:
        specs = load_specs(directory, ref)
    except SpecsInvalid as error:
        _show_problems(directory, error, output)
        raise typer.Exit(error.exit_code) from error
    from codehub.render.validation import valid_json, valid_text

    typer.echo(valid_json(specs) if output is ValidateFormat.JSON else valid_text(specs), nl=False)


def _show_problems(directory: Path, error: SpecsInvalid, output: ValidateFormat) -> None:
    if output is ValidateFormat.JSON:
        from codehub.render.validation import invalid_json

        typer.echo(invalid_json(str(directory), error.problems), nl=False)
        return
    from codehub.render.problems_text import problems_text

    typer.echo(problems_text(error.problems, error.hint), nl=False)
