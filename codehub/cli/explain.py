"""`codehub explain`: one workspace in depth."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.explanation import Explanation


class ExplainFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    name: Annotated[str, typer.Argument(help="The workspace.")],
    output: Annotated[
        ExplainFormat, typer.Option("--format", help="How to show it.")
    ] = ExplainFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Tell all about one workspace: why it is where it is, what comes next, what is in its way.

    Example: codehub explain payments-api
    """
    from codehub.render.explain_text import explain_json, explain_text

    explanation = asyncio.run(_explain(name, hub, data))
    if output is ExplainFormat.JSON:
        typer.echo(explain_json(explanation))
    else:
        typer.echo(explain_text(explanation), nl=False)


async def _explain(name: str, hub: str | None, data: Path | None) -> Explanation:
    from codehub.cli.hubs import require_hub
    from codehub.config import load_settings
    from codehub.service.explaining import customs_of, explain_workspace
    from codehub.service.rules import limits_of
    from codehub.wiring import open_hub

    settings = load_settings()
    async with open_hub(require_hub(hub, data)) as conn:
        return await explain_workspace(conn, name, customs_of(settings), limits_of(settings))
