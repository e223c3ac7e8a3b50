"""Webhooks and what they could not be told, as tables and as JSON; never a whole address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codehub.core.express import short
from codehub.core.notify import host_of
from codehub.render.table import table
from codehub.render.words import ago, clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.webhook import Backlog, Delivery

FORMAT_VERSION: Final = 1
HEAD: Final = ("NAME", "HOST", "EVENTS", "SIGNED", "TOLD", "WAITING", "GIVEN UP", "LAST TOLD")
TROUBLED: Final = ("ID", "WEBHOOK", "EVENT", "SINCE", "TRIES", "NEXT TRY", "WHY")
NONE: Final = "No webhook is declared. A Hub spec names them under 'webhooks'.\n"


def webhooks_text(backlogs: Sequence[Backlog], troubled: Sequence[Delivery], now: datetime) -> str:
    """Each webhook, then what could not be delivered so far."""
    if not backlogs:
        return NONE
    text = table(HEAD, [_row(each, now) for each in backlogs])
    if troubled:
        text += "\nNot delivered:\n" + table(TROUBLED, [_trouble(each, now) for each in troubled])
        text += "\nTry one again with 'codehub webhooks retry ID'.\n"
    return text


def webhooks_json(backlogs: Sequence[Backlog], troubled: Sequence[Delivery]) -> str:
    """Stable for scripts."""
    fields = {
        "formatVersion": FORMAT_VERSION,
        "webhooks": [_plain(each) for each in backlogs],
        "undelivered": [_delivery(each) for each in troubled],
    }
    return json.dumps(fields, indent=2)


def delivery_text(delivery: Delivery, now: datetime) -> str:
    """What came of a try, in a sentence or two."""
    name = clean(delivery.receiver.name)
    if delivery.delivered_at is not None:
        return f"{name} was told: it answered {delivery.last_status}.\n"
    why = clean(delivery.last_error)
    if delivery.failed_at is not None:
        return f"{name} was not told, and it is given up: {why}.\n"
    again = short(delivery.next_at - now)
    return f"{name} was not told: {why}.\nIt is tried again in {again}; see 'codehub doctor'.\n"


def delivery_json(delivery: Delivery) -> str:
    return json.dumps({"formatVersion": FORMAT_VERSION, **_delivery(delivery)}, indent=2)


def _row(backlog: Backlog, now: datetime) -> tuple[str, ...]:
    receiver = backlog.receiver
    failing = f" ({backlog.failing} failing)" if backlog.failing else ""
    last = backlog.last_delivered_at
    return (
        clean(receiver.name),
        clean(host_of(receiver.url)),
        clean(",".join(receiver.events)) or "all",
        "yes" if receiver.secret else "no",
        str(backlog.delivered),
        f"{backlog.pending}{failing}",
        str(backlog.failed),
        ago(now - last) if last else "never",
    )


def _trouble(delivery: Delivery, now: datetime) -> tuple[str, ...]:
    again = "given up" if delivery.failed_at else f"in {short(delivery.next_at - now)}"
    return (
        str(delivery.id),
        clean(delivery.receiver.name),
        clean(delivery.kind),
        ago(now - delivery.created_at),
        str(delivery.attempts),
        again,
        clean(delivery.last_error),
    )


def _plain(backlog: Backlog) -> dict[str, Any]:
    receiver = backlog.receiver
    return {
        "name": receiver.name,
        "host": host_of(receiver.url),
        "events": list(receiver.events),
        "signed": receiver.secret is not None,
        "since": receiver.since.isoformat(),
        "delivered": backlog.delivered,
        "pending": backlog.pending,
        "failing": backlog.failing,
        "failed": backlog.failed,
        "lastDeliveredAt": _moment(backlog.last_delivered_at),
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": str(delivery.id),
        "webhook": delivery.receiver.name,
        "type": delivery.kind,
        "createdAt": delivery.created_at.isoformat(),
        "attempts": delivery.attempts,
        "nextAt": None if delivery.is_done else delivery.next_at.isoformat(),
        "deliveredAt": _moment(delivery.delivered_at),
        "failedAt": _moment(delivery.failed_at),
        "lastStatus": delivery.last_status,
        "lastError": delivery.last_error or None,
    }


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
