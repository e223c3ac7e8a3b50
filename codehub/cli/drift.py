"""`codehub drift`: where reality differs from what was last applied."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from codehub.cli.options import DataOption, HubOption

DRIFTED = 3


class DriftFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    exit_code: Annotated[bool, typer.Option("--exit-code", help="0 no drift, 3 drift.")] = False,
    output: Annotated[
        DriftFormat, typer.Option("--format", help="How to show it.")
    ] = DriftFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Show where reality differs from what was last applied, as the coordinator last saw it.

    Reads only. What TTL or people lowered is not drift: 'codehub plan' lists that as held.

    Example: codehub drift --exit-code
    """
    from codehub.cli.hubs import stored_state
    from codehub.cli.printing import colorful
    from codehub.core.admit import leaving
    from codehub.core.detect import detect_drift
    from codehub.render.drift_text import drift_json, drift_text

    state, now = stored_state(hub, data), datetime.now(UTC)
    live = [each for each in state.workspaces if not leaving(each)]
    drift = detect_drift(live, now)
    if output is DriftFormat.JSON:
        text = drift_json(state, live, drift, now)
    else:
        text = drift_text(state, live, drift, now, color=colorful())
    typer.echo(text, nl=False)
    if exit_code and drift:
        raise typer.Exit(DRIFTED)
