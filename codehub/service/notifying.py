"""Asking the leader to tell a webhook something: a test, or what it could not be told before.

The leader alone writes deliveries (`coordinator/webhooks.py`). A command leaves a request, gets the
number of the delivery that came of it, and looks what becomes of that.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from codehub.core.notify import compose_test
from codehub.core.suggest import did_you_mean
from codehub.errors import CodeHubError, NotFound, Refused
from codehub.store import deliveries as stored
from codehub.store.advisory import somebody_leads
from codehub.store.requests import ask, finish, wait_for
from codehub.store.webhooks import read_receivers, read_sender

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.webhook import Delivery, Receiver
    from codehub.store.fence import Fence
    from codehub.store.requests import Request

KIND: Final = "webhooks"
TEST: Final = "test"
RETRY: Final = "retry"
LOOK_AGAIN: Final = 0.1
"""Seconds between two looks at a delivery."""
_LIST: Final = "'codehub webhooks list' shows those there are"


def find_receiver(receivers: Iterable[Receiver], word: str) -> Receiver:
    """The one of this name or address."""
    known = list(receivers)
    found = next((each for each in known if word in (each.name, each.url)), None)
    if found is None:
        guess = did_you_mean(word, [each.name for each in known])
        shown = "of that address" if "://" in word else f'"{word}"'
        raise NotFound(f"there is no webhook {shown}{guess}", hint=_LIST)
    return found


async def send_test(
    conn: AsyncConnection[DictRow], receiver: Receiver, *, by: str, seconds: float
) -> Delivery:
    """Have a test sent; the delivery as it stands after its first try."""
    return await _ask(conn, {TEST: str(receiver.id)}, by, seconds)


async def send_again(
    conn: AsyncConnection[DictRow], delivery_id: UUID, *, by: str, seconds: float
) -> Delivery:
    """Have one tried again that is not delivered; as it stands after that try."""
    return await _ask(conn, {RETRY: str(delivery_id)}, by, seconds)


async def answer_request(
    conn: AsyncConnection[DictRow], fence: Fence, request: Request, lasts: timedelta
) -> None:
    """Do what is asked for and say so, within one transaction of the leader."""
    try:
        delivery = await _do(conn, fence, request, lasts)
        answer: dict[str, Any] = {"delivery": str(delivery)}
    except Refused as refused:
        answer = {"error": refused.message, "hint": refused.hint}
    await finish(conn, fence, request.id, answer)


async def _do(
    conn: AsyncConnection[DictRow], fence: Fence, request: Request, lasts: timedelta
) -> UUID:
    if RETRY in request.arguments:
        return await _retry(conn, fence, str(request.arguments[RETRY]), lasts)
    receivers = {str(each.id): each for each in await read_receivers(conn)}
    receiver = receivers.get(str(request.arguments.get(TEST)))
    sender = await read_sender(conn, None)
    if receiver is None or sender is None:
        raise NotFound("the webhook was removed meanwhile", hint=_LIST)
    key, by = str(request.id), request.asked_by
    parcel = compose_test(receiver, sender, key=key, at=request.asked_at, by=by)
    await stored.enqueue(conn, fence, [parcel], lasts)
    return parcel.id


async def _retry(
    conn: AsyncConnection[DictRow], fence: Fence, number: str, lasts: timedelta
) -> UUID:
    """A request that makes no sense is answered like any other, or it would be asked for ever."""
    with suppress(ValueError):
        delivery_id = UUID(number)
        if await stored.retry(conn, fence, delivery_id, lasts):
            return delivery_id
    raise NotFound("nothing is to be delivered under this number any more", hint=_LIST)


async def _ask(
    conn: AsyncConnection[DictRow], arguments: dict[str, str], by: str, seconds: float
) -> Delivery:
    if not await somebody_leads(conn):
        raise Refused(
            "no coordinator leads this hub, and nobody else calls webhooks",
            hint="start 'codehub up' or 'codehub serve coordinator'",
        )
    end = asyncio.get_running_loop().time() + seconds
    answer = await wait_for(conn, await ask(conn, KIND, arguments, by), seconds)
    if answer is None:
        raise _late(seconds)
    if "delivery" not in answer:
        message = str(answer.get("error") or "the coordinator answered nothing of use")
        raise Refused(message, hint=answer.get("hint"))
    return await _first_try(conn, UUID(answer["delivery"]), end, seconds)


async def _first_try(
    conn: AsyncConnection[DictRow], delivery_id: UUID, end: float, seconds: float
) -> Delivery:
    while True:
        found = await stored.read_delivery(conn, delivery_id)
        if found is None:
            raise NotFound("the delivery was removed meanwhile", hint=_LIST)
        if found.attempts or found.is_done:
            return found
        if asyncio.get_running_loop().time() >= end:
            raise _late(seconds)
        await asyncio.sleep(LOOK_AGAIN)


def _late(seconds: float) -> CodeHubError:
    return CodeHubError(
        f"it was not tried within {seconds:g} s; the coordinator goes on with it",
        hint="see what becomes of it with 'codehub webhooks list'",
    )
