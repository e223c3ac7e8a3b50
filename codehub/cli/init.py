"""`codehub init`: example specs to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def command(
    directory: Annotated[
        Path, typer.Argument(help="The directory to write to; made if it is not there.")
    ] = Path("specs"),
) -> None:
    """Write example specs to start from. Nothing that is already there is overwritten.

    Example: codehub init my-specs
    """
    from codehub.specs.examples import write_examples

    written = write_examples(directory)
    for path in written:
        typer.echo(f"wrote {path}")
    name = shlex.quote(str(directory))
    typer.echo(
        "\nNext, check them and see what they would do:\n\n"
        f"    codehub validate {name}\n"
        f"    codehub plan {name}"
    )
