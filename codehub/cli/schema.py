"""`codehub schema`: the JSON Schema of the specs, for editors and other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the schema to this file.")
    ] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of one spec document of any kind.

    Editors with a YAML language server use it when a spec file starts with the line
    '# yaml-language-server: $schema=.codehub.schema.json', as the example specs do.

    Example: codehub schema --out specs/.codehub.schema.json
    """
    from codehub.cli.printing import deliver
    from codehub.specs.schema import schema_text

    deliver(schema_text(), out, "schema")
