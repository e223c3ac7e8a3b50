"""Checking the webhooks: secrets there, hosts reachable from here, nothing left undelivered."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from codehub.core.notify import host_of
from codehub.core.sign import read_keys
from codehub.errors import ActionFailed, Unreachable
from codehub.model.checkup import problem, warning, well
from codehub.service.secrets import read_secret
from codehub.service.threads import in_thread
from codehub.store.clock import read_now
from codehub.store.connect import connect, translated
from codehub.store.deliveries import read_troubled
from codehub.store.webhooks import read_backlogs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from codehub.adapters.http_post import HttpPost
    from codehub.model.checkup import Verdict
    from codehub.model.webhook import Backlog, Delivery, Receiver

LATELY: Final = timedelta(days=1)
"""What was given up longer ago is for the list only."""
READ: Final = 100
_LIST: Final = "'codehub webhooks list' shows what was not delivered"


async def look_at_webhooks(url: str, secrets: Path | None) -> Verdict | None:
    """What is wrong with them; None where none is declared."""
    async with await connect(url) as conn:
        with translated():
            backlogs = await read_backlogs(conn)
            troubled = await read_troubled(conn, READ)
            now = await read_now(conn)
    if not backlogs:
        return None
    receivers = [each.receiver for each in backlogs]
    secret = await find_bad_secret(receivers, secrets)
    return secret or await _unreachable(receivers) or judge_backlog(backlogs, troubled, now)


async def find_bad_secret(receivers: Iterable[Receiver], secrets: Path | None) -> Verdict | None:
    """The first secret that is missing or of no use: without it nothing is sent to its webhook."""
    for each in receivers:
        if each.secret is None:
            continue
        name = each.secret
        try:
            read_keys(await in_thread(partial(read_secret, secrets, name)))
        except ActionFailed as error:
            return problem(
                f"{each.name} is told nothing, for want of a signature: {error.message}",
                error.hint or f'put a key into the secret "{name}"',
            )
    return None


def judge_backlog(
    backlogs: Sequence[Backlog], troubled: Iterable[Delivery], now: datetime
) -> Verdict:
    """Given up lately is a problem; failing is tried again, and worth knowing."""
    trouble = [each for each in troubled if each.failed_at is None or now - each.failed_at < LATELY]
    failed = next((each for each in trouble if each.failed_at is not None), None)
    if failed is not None:
        name = failed.receiver.name
        return problem(f"{name} was not told of {failed.kind}: {failed.last_error}", _LIST)
    if trouble:
        name, why = trouble[0].receiver.name, trouble[0].last_error
        return warning(f"{name} could not be told yet, and is tried again: {why}", _LIST)
    count = len(backlogs)
    told = sum(each.delivered for each in backlogs)
    return well(f"{count} declared, {'it' if count == 1 else 'all'} can be reached; {told} told")


async def _unreachable(receivers: Sequence[Receiver]) -> Verdict | None:
    """The first that no connection could be made to, all of them tried at once."""
    from codehub.adapters.http_post import HttpPost

    post = HttpPost("CodeHub/doctor")
    found = await asyncio.gather(*(_reach(post, each) for each in receivers))
    return next((each for each in found if each is not None), None)


async def _reach(post: HttpPost, receiver: Receiver) -> Verdict | None:
    try:
        await post.reach(receiver.url)
    except Unreachable as error:
        return problem(
            f"{receiver.name}, from here: {error.message}",
            error.hint or f"see whether {host_of(receiver.url)} runs, and what is in between",
        )
    return None
