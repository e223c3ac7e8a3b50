"""`codehub webhooks`: whom the hub tells of what happens, and what it could not tell them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from codehub.cli.consent import author
from codehub.cli.options import DataOption, HubOption

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

SHOWN = 20
"""Undelivered messages that a list shows."""


class WebhooksFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[WebhooksFormat, typer.Option("--format", help="How to show it.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0, help="Seconds to wait for the first try.")
]


@app.command("list")
def list_webhooks(
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="At most so many undelivered messages.")
    ] = SHOWN,
    output: FormatOption = WebhooksFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """List the webhooks, and what they could not be told.

    Example: codehub webhooks list
    """

    async def act(conn: Any) -> None:
        from codehub.render.webhooks_text import webhooks_json, webhooks_text
        from codehub.store.clock import read_now
        from codehub.store.deliveries import read_troubled
        from codehub.store.webhooks import read_backlogs

        backlogs, troubled = await read_backlogs(conn), await read_troubled(conn, limit)
        if output is WebhooksFormat.JSON:
            typer.echo(webhooks_json(backlogs, troubled))
        else:
            typer.echo(webhooks_text(backlogs, troubled, await read_now(conn)), nl=False)

    _with_hub(hub, data, act)


@app.command("test")
def send_test(
    webhook: Annotated[str, typer.Argument(metavar="NAME_OR_URL", help="Which webhook.")],
    timeout: TimeoutOption = 30,
    output: FormatOption = WebhooksFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Send a test, and say what came of it.

    The coordinator sends it. Exits with 1 if it did not arrive.

    Example: codehub webhooks test chat
    """

    async def act(conn: Any) -> None:
        from codehub.service.notifying import find_receiver
        from codehub.service.notifying import send_test as send
        from codehub.store.webhooks import read_receivers

        receiver = find_receiver(await read_receivers(conn), webhook)
        await _tell(conn, await send(conn, receiver, by=author(), seconds=timeout), output)

    _with_hub(hub, data, act)


@app.command("retry")
def retry(
    delivery: Annotated[
        UUID, typer.Argument(metavar="ID", help="As 'codehub webhooks list' shows it.")
    ],
    timeout: TimeoutOption = 30,
    output: FormatOption = WebhooksFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Try an undelivered message again, now.

    The coordinator sends it. Exits with 1 if it did not arrive.

    Example: codehub webhooks retry 7d0ef3b6-6b9c-5a3e-9d55-2f6c4b8f3f57
    """

    async def act(conn: Any) -> None:
        from codehub.service.notifying import send_again

        await _tell(conn, await send_again(conn, delivery, by=author(), seconds=timeout), output)

    _with_hub(hub, data, act)


async def _tell(conn: Any, delivery: Any, output: WebhooksFormat) -> None:
    from codehub.render.webhooks_text import delivery_json, delivery_text
    from codehub.store.clock import read_now

    if output is WebhooksFormat.JSON:
        typer.echo(delivery_json(delivery))
    else:
        typer.echo(delivery_text(delivery, await read_now(conn)), nl=False)
    if delivery.delivered_at is None:
        raise typer.Exit(1)


def _with_hub(hub: str | None, data: Path | None, act: Callable[[Any], Awaitable[None]]) -> None:
    from codehub.cli.hubs import require_hub
    from codehub.wiring import open_hub

    async def run() -> None:
        async with open_hub(require_hub(hub, data)) as conn:
            await act(conn)

    asyncio.run(run())
