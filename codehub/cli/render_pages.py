"""`codehub render-pages`: the pages that the coordinator keeps, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codehub.cli.options import DataOption, HubOption


def command(
    directory: Annotated[Path, typer.Argument(help="Where to write them; made where missing.")],
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Write the status report and the error pages, for nginx or Caddy in front.

    Example: codehub render-pages /var/www/codehub
    """
    from codehub.cli.addresses import known_address
    from codehub.cli.report import fetch_report
    from codehub.service.reporting import render_pages, write_pages

    pages = render_pages(fetch_report(hub, data), known_address(hub, data))
    changed = write_pages(directory, pages)
    typer.echo(f"{len(pages)} pages in {directory}, {len(changed)} of them changed")
