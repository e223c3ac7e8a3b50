"""Who is told of what: which events matter to webhooks, and what is written to each of them.

A parcel's id follows from the receiver and the event, so handing out the same event twice makes
the same parcel, which the database keeps once. Payloads are documented in
`docs/reference/webhooks.md`; they name things and say why, and carry no value of any variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import uuid5

from codehub.model.events import EventKind
from codehub.model.states import Phase
from codehub.model.webhook import TEST, FailedLoad, Moved, Parcel, WebhookEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from codehub.model.people import Webhook
    from codehub.model.webhook import Receiver, Sender

LONGEST: Final = 1000
"""Characters of a message; whoever wants all of it looks at the hub."""
PROBLEMS: Final = 10
"""Problems of failed specs that are told; the count tells of the rest."""

_WITH_A_HOME: Final = (Phase.RUNNING.value, Phase.STANDBY.value)


def classify(what: Moved | FailedLoad) -> WebhookEvent | None:
    """The name under which webhooks are told of it; None for what is no news to them.

    Only a home that was there is archived: an undeleted, recovered or empty workspace is ARCHIVED
    without anybody's home having moved.
    """
    if isinstance(what, FailedLoad):
        return WebhookEvent.REVISION_FAILED
    event = what.event
    if event.kind is EventKind.EXPIRING:
        return WebhookEvent.WORKSPACE_EXPIRING
    if event.kind is not EventKind.PHASE:
        return None
    if event.new == Phase.ERROR:
        return WebhookEvent.WORKSPACE_ERROR
    if event.new == Phase.ARCHIVED and event.old in _WITH_A_HOME:
        return WebhookEvent.WORKSPACE_ARCHIVED
    return None


def address(
    what: Moved | FailedLoad, receivers: Iterable[Receiver], sender: Sender
) -> Iterator[Parcel]:
    """A parcel for everyone who wants to know of it and was there when it happened."""
    kind = classify(what)
    if kind is None:
        return
    if isinstance(what, FailedLoad):
        at, key, said = what.revision.created_at, f"revision:{what.revision.id}", _failed(what)
    else:
        at, key, said = what.event.at, f"event:{what.event.id}", _moved(what, kind, sender)
    for each in receivers:
        if at >= each.since and (not each.events or kind in each.events):
            yield _parcel(each, key, kind, at, sender, said)


def compose_test(receiver: Receiver, sender: Sender, *, key: str, at: datetime, by: str) -> Parcel:
    """What somebody sends to see whether it arrives; `key` tells one asking from another."""
    said = {"reason": TEST, "message": f"a test, asked for by {by or 'somebody'}"}
    return _parcel(receiver, f"test:{key}", TEST, at, sender, said)


def name_webhooks(webhooks: Sequence[Webhook]) -> tuple[str, ...]:
    """What to call each: its own name, or its host, with a number where that is taken.

    Never more of the address than that: the rest often carries a token.
    """
    taken = {each.name for each in webhooks if each.name}
    names: list[str] = []
    for each in webhooks:
        name, number = each.name or host_of(each.url), 1
        while not each.name and name in taken:
            number += 1
            name = f"{host_of(each.url)}-{number}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def host_of(url: str) -> str:
    """Where an address leads, without what may be secret in it."""
    return urlsplit(url).hostname or "?"


def _parcel(
    receiver: Receiver, key: str, kind: str, at: datetime, sender: Sender, said: dict[str, Any]
) -> Parcel:
    parcel_id: UUID = uuid5(receiver.id, key)
    payload = {
        "id": str(parcel_id),
        "type": str(kind),
        "at": at.isoformat(),
        "hub": {"id": str(sender.id), "name": sender.name},
        **said,
    }
    return Parcel(parcel_id, receiver.id, str(kind), payload)


def _moved(what: Moved, kind: WebhookEvent, sender: Sender) -> dict[str, Any]:
    event = what.event
    reason, message = _why(what, kind)
    said: dict[str, Any] = {
        "workspace": {
            "id": str(event.workspace_id),
            "name": event.workspace,
            "owner": what.owner,
            "phase": what.phase,
        },
        "change": {"from": event.old, "to": event.new},
        "reason": reason,
        "message": cut(message),
    }
    if sender.public_url is not None:
        said["url"] = f"{sender.public_url.rstrip('/')}/w/{event.workspace}/"
    return said


def _why(what: Moved, kind: WebhookEvent) -> tuple[str, str]:
    """A word for programs and a sentence for people."""
    cause = what.cause
    if kind is WebhookEvent.WORKSPACE_ERROR:
        return (cause.new, cause.reason) if cause else ("", what.event.reason)
    if kind is WebhookEvent.WORKSPACE_EXPIRING or cause is None:
        return what.event.source, what.event.reason
    asked = f"asked for by {cause.by}" if cause.by else ""
    return cause.source, cause.reason or asked


def _failed(what: FailedLoad) -> dict[str, Any]:
    revision = what.revision
    count = len(revision.problems)
    first = revision.problems[0] if revision.problems else "the specs could not be loaded"
    return {
        "revision": {
            "id": revision.id,
            "directory": revision.origin.directory,
            "commit": revision.origin.commit,
            "ref": revision.origin.ref,
            "problemCount": count,
            "problems": [cut(each) for each in revision.problems[:PROBLEMS]],
        },
        "reason": "SpecsInvalid",
        "message": cut(first + (f" (and {count - 1} more)" if count > 1 else "")),
    }


def cut(text: str) -> str:
    """No longer than anybody reads."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
