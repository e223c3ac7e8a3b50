"""Signatures as the Standard Webhooks convention has them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from codehub.core.sign import read_keys, sign, stamp
from codehub.errors import ActionFailed

STAMPED = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330"}
BODY = b'{"test": 2432232314}'
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_example_of_the_convention_comes_out() -> None:
    headers = sign(KEY, STAMPED, BODY)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert {name: headers[name] for name in STAMPED} == STAMPED


def test_a_stamp_is_an_id_and_whole_seconds() -> None:
    at = datetime(2021, 2, 25, 15, 2, 10, 999_999, tzinfo=UTC)
    stamped = stamp(UUID(int=5), at)
    assert stamped == {"webhook-id": str(UUID(int=5)), "webhook-timestamp": "1614265330"}


def test_each_line_is_a_key() -> None:
    both = sign(f"{KEY}\n\n  other \n", STAMPED, BODY)["webhook-signature"].split(" ")
    assert both[0] == sign(KEY, STAMPED, BODY)["webhook-signature"]
    assert both[1] == sign("other", STAMPED, BODY)["webhook-signature"]
    assert read_keys("a\r\nb") == (b"a", b"b")


@pytest.mark.parametrize("change", ["webhook-id", "webhook-timestamp", "body", "key"])
def test_a_change_anywhere_is_another_signature(change: str) -> None:
    changed = {**STAMPED, change: "1"} if change in STAMPED else STAMPED
    body = BODY + b" " if change == "body" else BODY
    key = "other" if change == "key" else KEY
    one, other = sign(KEY, STAMPED, BODY), sign(key, changed, body)
    assert one["webhook-signature"] != other["webhook-signature"]


@pytest.mark.parametrize(
    ("secret", "says"),
    [("", "empty"), (" \n\n", "empty"), ("whsec_not base64!", "not base64"), ("whsec_a", "base64")],
)
def test_what_is_no_key_is_said_without_repeating_it(secret: str, says: str) -> None:
    with pytest.raises(ActionFailed, match=says) as caught:
        sign(secret, STAMPED, BODY)
    assert not secret.strip() or secret not in str(caught.value)
