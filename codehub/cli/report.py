"""`codehub report`: the fleet for operators, as a page, as Markdown or for scripts."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption
from codehub.model.history import DAYS, MOST_DAYS

if TYPE_CHECKING:
    from codehub.model.report import Report

MOST_MOVES = 1_000_000
"""Nobody else waits for a command: it counts what a page does not."""


class ReportFormat(StrEnum):
    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


def command(
    output: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="How to show it (default: as --out is named, else md)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write it to this file instead.")
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=MOST_DAYS, help="How far its history looks back.")
    ] = DAYS,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Report on the fleet: phases, holds, errors with advice, drift, use, hours saved by TTL.

    Example: codehub report --days 30 --out report.html
    """
    from codehub.cli.addresses import known_address
    from codehub.cli.printing import deliver

    report = fetch_report(hub, data, days)
    form = output or _format_of(out)
    site = known_address(hub, data) if form is ReportFormat.HTML else None
    deliver(_render(report, form, site), out, "report")


def fetch_report(hub: str | None, data: Path | None, days: int = DAYS) -> Report:
    """The report of the hub, which must exist; shared with `render-pages`."""
    from codehub.cli.hubs import require_hub
    from codehub.config import load_settings
    from codehub.service.reporting import read_report
    from codehub.wiring import open_hub

    kept: list[Report] = []

    async def read() -> None:
        async with open_hub(require_hub(hub, data)) as conn:
            settings = load_settings()
            kept.append(await read_report(conn, settings, days=days, most_moves=MOST_MOVES))

    asyncio.run(read())
    return kept[0]


def _format_of(out: Path | None) -> ReportFormat:
    suffix = out.suffix.removeprefix(".").lower() if out else ""
    suffix = "html" if suffix == "htm" else suffix
    return ReportFormat(suffix) if suffix in set(ReportFormat) else ReportFormat.MARKDOWN


def _render(report: Report, output: ReportFormat, site: str | None) -> str:
    match output:
        case ReportFormat.HTML:
            from codehub.render.report_html import about_below, report_html

            return report_html(report, below=about_below(site))
        case ReportFormat.JSON:
            from codehub.render.report_json import report_json

            return report_json(report)
        case ReportFormat.MARKDOWN:
            from codehub.render.report_markdown import report_markdown

            return report_markdown(report)
