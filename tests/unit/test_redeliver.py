"""What a try to deliver leads to: done, once more, or given up."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.redeliver import Patience, describe, settle
from codehub.errors import ActionFailed, Unreachable
from codehub.model.webhook import Answer, Delivery, Receiver
from tests.make import NOW

HOOK = Receiver(UUID(int=1), "chat", "https://x", (), None, NOW)
DAY = timedelta(days=1)
PATIENCE = Patience()


def delivery(attempts: int = 0, left: timedelta = DAY) -> Delivery:
    return Delivery(UUID(int=2), HOOK, "test", NOW, NOW + left, attempts, NOW)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_two_hundred_is_delivered(status: int) -> None:
    done = settle(delivery(), Answer(status), NOW, 0.0, PATIENCE)
    assert (done.delivered, done.failed, done.next_at, done.error) == (True, False, None, "")
    assert done.status == status


@pytest.mark.parametrize("status", [300, 301, 304, 400, 401, 404, 408, 409, 429, 500, 503])
def test_everything_else_is_tried_again(status: int) -> None:
    again = settle(delivery(), Answer(status), NOW, 0.0, PATIENCE)
    assert (again.delivered, again.failed) == (False, False)
    assert again.next_at == NOW + timedelta(seconds=10)
    assert str(status) in again.error


@pytest.mark.parametrize(
    "error", [Unreachable("x gave no answer"), ActionFailed("there is no secret")]
)
def test_no_answer_and_no_secret_are_tried_again(error: Unreachable | ActionFailed) -> None:
    again = settle(delivery(), error, NOW, 0.0, PATIENCE)
    assert (again.next_at, again.error) == (NOW + timedelta(seconds=10), error.message)
    assert again.status is None


def test_waits_double_to_an_hour() -> None:
    waits = [
        settle(delivery(tries), Answer(500), NOW, 0.0, PATIENCE).next_at for tries in range(12)
    ]
    seconds = [(each - NOW).total_seconds() for each in waits if each]
    assert seconds == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]


def test_gone_is_given_up_at_once() -> None:
    done = settle(delivery(), Answer(410), NOW, 0.0, PATIENCE)
    assert (done.failed, done.next_at) == (True, None)
    assert "not tried again" in done.error


def test_the_last_try_is_at_the_end_and_then_it_is_given_up() -> None:
    nearly = delivery(9, timedelta(minutes=1))
    assert settle(nearly, Answer(500), NOW, 0.0, PATIENCE).next_at == nearly.expires_at
    assert settle(nearly, Answer(500), nearly.expires_at, 0.0, PATIENCE).failed
    assert settle(nearly, Answer(200), nearly.expires_at, 0.0, PATIENCE).delivered


@pytest.mark.parametrize(("asked", "waits"), [(3, 10), (10, 10), (90, 90), (7 * 86400, 86400)])
def test_who_asks_to_be_left_alone_is_within_the_time_there_is(asked: int, waits: int) -> None:
    answer = Answer(429, timedelta(seconds=asked))
    again = settle(delivery(), answer, NOW, 0.0, PATIENCE)
    assert again.next_at == NOW + timedelta(seconds=waits)


@given(
    status=st.integers(100, 599),
    attempts=st.integers(0, 10_000),
    age=st.integers(0, 200_000),
    asked=st.none() | st.integers(0, 10**6),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_it_ends_one_way_only_and_never_waits_in_the_past(
    status: int, attempts: int, age: int, asked: int | None, jitter: float
) -> None:
    now = NOW + timedelta(seconds=age)
    answer = Answer(status, None if asked is None else timedelta(seconds=asked))
    found = settle(delivery(attempts), answer, now, jitter, PATIENCE)
    assert [found.delivered, found.failed, found.next_at is not None].count(True) == 1
    if found.next_at is not None:
        assert now < found.next_at <= NOW + DAY
        assert found.error


def test_redirects_and_refusals_say_what_to_do() -> None:
    assert "redirects are not followed" in describe(Answer(307))
    assert "the signature" in describe(Answer(401))
