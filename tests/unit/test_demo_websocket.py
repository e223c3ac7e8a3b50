"""The demo's WebSockets: the handshake, messages, and what breaks the protocol."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.demo.websocket import MAX_FRAGMENTS, MAX_MESSAGE, Opcode, unmask
from tests.unit.demo_client import serving, talking

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_the_handshake_proves_that_the_key_was_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        # The example of RFC 6455, section 1.3.
        answer = await client.upgrade("/echo", Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==")

    assert answer.status == 101
    assert answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert "content-length" not in answer.headers


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Upgrade": None}, 426),
        ({"Connection": "close"}, 426),
        ({"Sec_WebSocket_Version": "8"}, 426),
        ({"Sec_WebSocket_Key": None}, 400),
        ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400),
        ({"Sec_WebSocket_Key": "***"}, 400),
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "https://hub.test", "X_Forwarded_Host": "other.test"}, 101),
    ],
)
async def test_only_a_proper_handshake_becomes_a_socket(
    tmp_path: Path, changes: dict[str, str | None], status: int
) -> None:
    async with serving(tmp_path) as client:
        assert (await client.upgrade("/echo", **changes)).status == status


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, MAX_MESSAGE])
async def test_messages_of_every_length_come_back(tmp_path: Path, size: int) -> None:
    payload = bytes(each % 251 for each in range(size))
    async with talking(tmp_path) as client:
        client.frame(Opcode.BINARY, payload)

        assert await client.heard() == (Opcode.BINARY, payload)


async def test_fragments_are_one_message_and_pings_between_them_are_answered(
    tmp_path: Path,
) -> None:
    euro = "€".encode()
    async with talking(tmp_path) as client:
        client.frame(Opcode.TEXT, euro[:1], first=0)
        client.frame(Opcode.PING, b"there?")
        client.frame(Opcode.PONG, b"unasked")
        client.frame(Opcode.CONTINUATION, euro[1:2], first=0)
        client.frame(Opcode.CONTINUATION, euro[2:])

        assert await client.heard() == (Opcode.PONG, b"there?")
        assert await client.heard() == (Opcode.TEXT, euro)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param([(0x0, b"x", 0x80)], 1002, id="continues nothing"),
        pytest.param([(0x1, b"x", 0), (0x1, b"y", 0x80)], 1002, id="begins inside another"),
        pytest.param([(0x3, b"x", 0x80)], 1002, id="unknown kind"),
        pytest.param([(0x1, b"x", 0xC0)], 1002, id="reserved bit"),
        pytest.param([(0x9, b"x", 0)], 1002, id="ping in parts"),
        pytest.param([(0x9, b"x" * 126, 0x80)], 1002, id="long ping"),
        pytest.param([(0x1, b"\xff", 0x80)], 1007, id="not UTF-8"),
        pytest.param([(0x2, b"x" * (MAX_MESSAGE + 1), 0x80)], 1009, id="too long"),
        pytest.param([(0x2, b"x" * MAX_MESSAGE, 0), (0x0, b"x", 0x80)], 1009, id="too long in all"),
        pytest.param(
            [(0x2, b"", 0), *[(0x0, b"", 0)] * (MAX_FRAGMENTS - 1)], 1009, id="too many parts"
        ),
        pytest.param([(0x8, b"\x03", 0x80)], 1002, id="half a close code"),
        pytest.param([(0x8, struct.pack("!H", 1005), 0x80)], 1002, id="a code never sent"),
        pytest.param([(0x8, struct.pack("!H", 1000) + b"\xff", 0x80)], 1007, id="garbled reason"),
    ],
)
async def test_whoever_breaks_the_protocol_is_told_and_left(
    tmp_path: Path, frames: list[tuple[int, bytes, int]], code: int
) -> None:
    async with talking(tmp_path) as client:
        for opcode, payload, first in frames:
            client.frame(opcode, payload, first=first)
        client.frame(Opcode.CLOSE)

        opcode, payload = await client.heard()
        assert (opcode, struct.unpack("!H", payload[:2])[0]) == (Opcode.CLOSE, code)


async def test_a_frame_without_a_mask_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path) as client:
        client.writer.write(b"\x81\x02hi")
        client.frame(Opcode.CLOSE)

        opcode, payload = await client.heard()
        assert (opcode, payload[:2]) == (Opcode.CLOSE, struct.pack("!H", 1002))


@pytest.mark.parametrize(
    ("sent", "heard"),
    [(b"", 1000), (struct.pack("!H", 1001) + b"bye", 1001), (struct.pack("!H", 4321), 4321)],
)
async def test_a_goodbye_is_returned_and_ends_it(tmp_path: Path, sent: bytes, heard: int) -> None:
    async with talking(tmp_path) as client:
        client.frame(Opcode.CLOSE, sent)

        assert await client.heard() == (Opcode.CLOSE, struct.pack("!H", heard))
        assert await client.ended()


async def test_the_terminal_greets_and_answers(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    async with talking(tmp_path, "/terminal") as client:
        greeting = await client.heard()
        client.frame(Opcode.TEXT, b"ls")
        listed = await client.heard()
        client.frame(Opcode.TEXT, b"hello <b>")
        echoed = await client.heard()

    assert greeting == (Opcode.TEXT, b"Welcome to api. Type help and press Enter.")
    assert listed == (Opcode.TEXT, b"work/")
    assert echoed == (Opcode.TEXT, b"hello <b>")


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
@settings(max_examples=100)
def test_masking_twice_changes_nothing(payload: bytes, mask: bytes) -> None:
    masked = unmask(payload, mask)

    assert masked == bytes(each ^ mask[at % 4] for at, each in enumerate(payload))
    assert unmask(masked, mask) == payload
