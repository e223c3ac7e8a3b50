"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SpecsArgument = Annotated[Path, typer.Argument(help="The directory with the specs.")]
RefOption = Annotated[
    str | None,
    typer.Option("--ref", help="Read the specs from git at this commit, branch or tag."),
]
HubOption = Annotated[
    str | None,
    typer.Option("--hub", help="The hub's database, as a postgresql:// address."),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="The data directory of an embedded hub (default .codehub)."),
]
