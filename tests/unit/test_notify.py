"""Which events matter to which webhook, and what they are told: pure decisions."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.core.notify import (
    LONGEST,
    PROBLEMS,
    address,
    classify,
    compose_test,
    name_webhooks,
)
from codehub.model.events import Event, EventKind
from codehub.model.people import Webhook
from codehub.model.revision import Origin, Revision
from codehub.model.states import Phase
from codehub.model.webhook import Cause, FailedLoad, Moved, Receiver, Sender
from tests.make import NOW

if TYPE_CHECKING:
    from codehub.model.webhook import Parcel

SENDER = Sender(UUID(int=9), "team")
SECOND = timedelta(seconds=1)


def moved(kind: EventKind, old: str = "", new: str = "", cause: Cause | None = None) -> Moved:
    event = Event(7, NOW, UUID(int=1), "api", kind, old, new, "controller", "", "because")
    return Moved(event, "alice", "RUNNING", cause)


def failed(*problems: str) -> FailedLoad:
    return FailedLoad(Revision(3, "d", Origin("/srv/specs"), NOW, "watcher", False, problems))


def receiver(number: int = 1, *events: str, since: timedelta = SECOND) -> Receiver:
    return Receiver(UUID(int=number), f"hook{number}", "https://x", events, None, NOW - since)


def told(what: Moved | FailedLoad, *receivers: Receiver, sender: Sender = SENDER) -> list[Parcel]:
    return list(address(what, receivers or (receiver(),), sender))


ERROR = moved(EventKind.PHASE, "STANDBY", "ERROR", Cause("Timeout", "controller", "", "too slow"))


def test_of_all_moves_only_errors_and_archived_homes_are_news() -> None:
    news = {
        (kind, old, new): found
        for kind in EventKind
        for old in (*Phase, "")
        for new in (*Phase, "Timeout", "")
        if (found := classify(moved(kind, old, new))) and kind is not EventKind.EXPIRING
    }
    archived = dict.fromkeys(
        [(EventKind.PHASE, old, "ARCHIVED") for old in ("RUNNING", "STANDBY")], "workspace.archived"
    )
    errors = [(EventKind.PHASE, old, "ERROR") for old in (*Phase, "")]
    assert news == archived | dict.fromkeys(errors, "workspace.error")


def test_expiring_and_failed_loads_are_always_news() -> None:
    assert classify(moved(EventKind.EXPIRING, "RUNNING", "STANDBY")) == "workspace.expiring"
    assert classify(failed("x")) == "revision.failed"


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ((), 1),
        (("workspace.error",), 1),
        (("revision.failed", "workspace.error"), 1),
        (("revision.failed",), 0),
        (("error",), 0),
    ],
)
def test_each_webhook_gets_what_it_names(events: tuple[str, ...], count: int) -> None:
    assert len(told(ERROR, receiver(1, *events))) == count


def test_nobody_gets_what_happened_before_they_were_there() -> None:
    there, then, later = receiver(1), receiver(2, since=0 * SECOND), receiver(3, since=-SECOND)
    assert [each.receiver_id for each in told(ERROR, there, then, later)] == [there.id, then.id]
    assert told(failed("x"), later) == []


def test_a_parcel_has_one_id_for_ever_and_another_for_everybody_else() -> None:
    one, other = told(ERROR, receiver(1), receiver(2))
    assert one.id == told(ERROR, receiver(1))[0].id
    third, test = (
        told(failed("x"), receiver(1))[0],
        compose_test(receiver(1), SENDER, key="7", at=NOW, by="alice"),
    )
    assert len({one.id, other.id, third.id, test.id}) == 4
    assert one.payload["id"] == str(one.id)


@pytest.mark.parametrize(
    ("what", "reason", "message"),
    [
        (ERROR, "Timeout", "too slow"),
        (moved(EventKind.PHASE, "STANDBY", "ERROR"), "", "because"),
        (moved(EventKind.EXPIRING, "RUNNING", "STANDBY"), "controller", "because"),
        (
            moved(EventKind.PHASE, "STANDBY", "ARCHIVED", Cause("ARCHIVED", "cli", "bob", "")),
            "cli",
            "asked for by bob",
        ),
        (
            moved(EventKind.PHASE, "STANDBY", "ARCHIVED", Cause("ARCHIVED", "ttl", "ttl", "idle")),
            "ttl",
            "idle",
        ),
        (failed("one"), "SpecsInvalid", "one"),
        (failed("one", "two", "three"), "SpecsInvalid", "one (and 2 more)"),
        (failed(), "SpecsInvalid", "the specs could not be loaded"),
    ],
)
def test_why_is_said_for_programs_and_for_people(
    what: Moved | FailedLoad, reason: str, message: str
) -> None:
    (parcel,) = told(what)
    assert (parcel.payload["reason"], parcel.payload["message"]) == (reason, message)


def test_the_way_there_is_told_where_it_is_known() -> None:
    assert "url" not in told(ERROR)[0].payload
    known = Sender(SENDER.id, "team", "https://hub.example.org/")
    assert told(ERROR, sender=known)[0].payload["url"] == "https://hub.example.org/w/api/"


def test_payloads_stay_small_whatever_went_wrong() -> None:
    (parcel,) = told(failed(*["x" * 5000] * 200))
    assert parcel.payload["revision"]["problemCount"] == 200
    assert len(parcel.payload["revision"]["problems"]) == PROBLEMS
    assert len(json.dumps(parcel.payload)) < (PROBLEMS + 2) * (LONGEST + 20)
    assert parcel.payload["message"].endswith("…")


def test_a_test_says_who_asked() -> None:
    parcel = compose_test(receiver(1, "revision.failed"), SENDER, key="1", at=NOW, by="alice")
    assert (parcel.kind, parcel.payload["type"]) == ("test", "test")
    assert parcel.payload["message"] == "a test, asked for by alice"


def test_names_are_given_or_hosts_and_never_twice_the_same() -> None:
    hooks = (
        Webhook("https://Chat.example.org/T0KEN"),
        Webhook("https://chat.example.org:8443/other?t=T0KEN"),
        Webhook("https://x.example.org/", name="chat.example.org-2"),
        Webhook("http://[::1]:80/", name=None),
    )
    names = name_webhooks(hooks)
    assert names == ("chat.example.org", "chat.example.org-3", "chat.example.org-2", "::1")
