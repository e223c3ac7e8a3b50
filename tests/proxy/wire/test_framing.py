"""How long a body is: our own word, whatever the parser below lets pass."""

from __future__ import annotations

import pytest

from codehub.proxy.framing import CHUNKED, UNTIL_CLOSE, Bad, framing, keeps_alive

TOLD = [
    (None, None, UNTIL_CLOSE),
    ([b"0"], None, 0),
    ([b"123"], None, 123),
    (None, [b"chunked"], CHUNKED),
    (None, [b"Chunked"], CHUNKED),
]
NOT_TOLD = [
    ([b"1"], [b"chunked"]),
    ([b"0"], [b"chunked"]),
    ([b"1", b"1"], None),
    ([b"1", b"2"], None),
    ([b"1, 1"], None),
    ([b""], None),
    ([b"+1"], None),
    ([b"1_0"], None),
    ([b"0x1"], None),
    ([b"\xb2"], None),
    ([b"9" * 19], None),
    (None, [b"gzip"]),
    (None, [b"gzip, chunked"]),
    (None, [b"chunked", b"chunked"]),
    (None, [b"identity"]),
]


@pytest.mark.parametrize(("lengths", "encodings", "length"), TOLD)
def test_one_way_to_read_it(
    lengths: list[bytes] | None, encodings: list[bytes] | None, length: int
) -> None:
    assert framing(lengths, encodings, otherwise=UNTIL_CLOSE, old=False) == length


@pytest.mark.parametrize(("lengths", "encodings"), NOT_TOLD)
def test_more_than_one_way_to_read_it(
    lengths: list[bytes] | None, encodings: list[bytes] | None
) -> None:
    with pytest.raises(Bad):
        framing(lengths, encodings, otherwise=UNTIL_CLOSE, old=False)


def test_old_messages_have_no_chunks() -> None:
    with pytest.raises(Bad):
        framing(None, [b"chunked"], otherwise=UNTIL_CLOSE, old=True)


@pytest.mark.parametrize(
    ("connection", "old", "stays"),
    [
        (None, False, True),
        (None, True, False),
        ([b"keep-alive"], True, True),
        ([b"close"], False, False),
        ([b"x, Close"], False, False),
        ([b"upgrade", b"close"], False, False),
        ([b"keep-alive, close"], True, False),
        ([b"Upgrade"], False, True),
    ],
)
def test_who_stays(connection: list[bytes] | None, old: bool, stays: bool) -> None:
    assert keeps_alive(connection, old=old) is stays
