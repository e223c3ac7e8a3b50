"""Posting over HTTP: what is sent, what counts as an answer, and the limits of patience."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.http_post import BODY, HEAD, HttpPost
from codehub.errors import Unreachable
from codehub.model.webhook import Answer
from tests.integration.receiver import receiving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio

PATIENT = HttpPost("CodeHub/test", connect_seconds=60, total_seconds=60)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def raw(
    answer: bytes, *, stays: bool = False, listens: bool = True
) -> AsyncIterator[tuple[str, bytearray]]:
    """A server that says these bytes after a request, and then hangs up unless it `stays`."""
    heard = bytearray()
    leave = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if listens:
                heard.extend(await reader.readuntil(b"\r\n\r\n"))
            length = re.search(rb"(?i)content-length: (\d+)", heard)
            heard.extend(await reader.readexactly(int(length[1]) if length else 0))
            writer.write(answer)
            await writer.drain()
            if stays:
                await leave.wait()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", heard
        leave.set()


async def test_a_request_has_all_it_needs_and_no_more() -> None:
    async with raw(OK) as (url, heard):
        answer = await PATIENT.post(f"{url}/a%20b/ü?t=1&u=a b#gone", {"x-one": "1"}, b'{"a":1}')
    assert answer == Answer(200)
    assert bytes(heard).decode() == (
        "POST /a%20b/%C3%BC?t=1&u=a%20b HTTP/1.1\r\n"
        f"Host: {url.removeprefix('http://')}\r\n"
        "User-Agent: CodeHub/test\r\n"
        "Content-Type: application/json\r\n"
        "Accept: */*\r\n"
        "Connection: close\r\n"
        "Content-Length: 7\r\n"
        "x-one: 1\r\n"
        "\r\n"
        '{"a":1}'
    )


@pytest.mark.parametrize("path", ["", "/", "?a=1"])
async def test_a_path_is_always_there(path: str) -> None:
    async with raw(OK) as (url, heard):
        await PATIENT.post(url + path, {}, b"")
    assert bytes(heard).startswith(b"POST /" + (b"?a=1" if "?" in path else b"") + b" HTTP/1.1")


@pytest.mark.parametrize("status", [200, 204, 301, 307, 404, 410, 500, 599])
async def test_whatever_it_answers_is_an_answer_and_nothing_is_followed(status: int) -> None:
    with receiving() as receiver:
        receiver.answer(status, location=receiver.url("/elsewhere"))
        assert await PATIENT.post(receiver.url(), {}, b"{}") == Answer(status)
        assert [each.path for each in receiver.got] == ["/hook"]


async def test_answers_before_the_answer_are_passed_over() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with raw(early + OK) as (url, _):
        assert (await PATIENT.post(url, {}, b"{}")).status == 200


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("99999999999999999999999", 7 * 86400),
        ("soon", None),
        ("-5", None),
        ("", None),
        (format_datetime(datetime(2001, 1, 1, tzinfo=UTC)), 0),
        (format_datetime(datetime(9000, 1, 1, tzinfo=UTC)), 7 * 86400),
    ],
)
async def test_how_long_to_leave_it_alone(field: str, seconds: int | None) -> None:
    answer = f"HTTP/1.1 429 Slow\r\nRetry-After: {field}\r\nContent-Length: 0\r\n\r\n"
    async with raw(answer.encode()) as (url, _):
        found = await PATIENT.post(url, {}, b"{}")
    assert found.retry_after == (None if seconds is None else timedelta(seconds=seconds))


async def test_a_date_a_minute_ahead_is_about_a_minute() -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(hours=5), usegmt=True)
    answer = f"HTTP/1.1 503 Later\r\nRetry-After: {until}\r\nContent-Length: 0\r\n\r\n"
    async with raw(answer.encode()) as (url, _):
        wait = (await PATIENT.post(url, {}, b"{}")).retry_after
    assert wait is not None
    assert timedelta(hours=4) < wait <= timedelta(hours=5)


# What is no answer


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 999 No\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + OK,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * HEAD + b"\r\n\r\n",
    ],
    ids=["nothing", "half a head", "ssh", "http2", "no status", "for ever", "endless head"],
)
async def test_what_is_no_answer_is_told_as_none(answer: bytes) -> None:
    async with raw(answer) as (url, _):
        with pytest.raises(Unreachable, match=r"^127\.0\.0\.1 "):
            await PATIENT.post(f"{url}/canary", {}, b"{}")


async def test_a_body_without_end_is_not_waited_for() -> None:
    """Its status is known; what comes after it is read to 4 KiB, and for a moment only."""
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * (2 * BODY)
    async with raw(endless, stays=True) as (url, _):
        assert (await PATIENT.post(url, {}, b"{}")).status == 200
    silent = b"HTTP/1.1 202 OK\r\n\r\n"
    async with raw(silent, stays=True) as (url, _):
        assert (await PATIENT.post(url, {}, b"{}")).status == 202


async def test_silence_ends_after_the_time_there_is() -> None:
    hasty = HttpPost("CodeHub/test", total_seconds=0.05)
    async with raw(b"", stays=True) as (url, _):
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1 gave no answer within 0\.05 s"):
            await hasty.post(f"{url}/canary", {}, b"{}")


async def test_where_nobody_listens_is_said_without_the_address() -> None:
    with receiving() as gone:
        url = gone.url("/canary")
    for call in (PATIENT.post(url, {}, b"{}"), PATIENT.reach(url)):
        with pytest.raises(Unreachable) as caught:
            await call
        assert caught.value.message == "127.0.0.1 cannot be reached: Connection refused"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://no-such-host.invalid/canary", "the name no-such-host.invalid cannot be resolved"),
        ("http://[::1/canary", "its address cannot be used"),
        ("http://x:99999/canary", "its address cannot be used"),
        ("ftp://x/canary", "its address cannot be used"),
        ("http:///canary", "its address cannot be used"),
        (f"http://{'a' * 70}.org/canary", "its address cannot be used"),
    ],
)
async def test_an_address_that_leads_nowhere(
    url: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    with pytest.raises(Unreachable) as caught:
        await PATIENT.post(url, {}, b"{}")
    assert caught.value.message == says


async def test_a_resolver_that_hangs_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them at once than the threads that all others share."""
    known, ending = socket.getaddrinfo, threading.Event()

    def look_up(host: str, *rest: object, **named: object) -> object:
        if host == "dead.example":
            ending.wait(100)
        return known(host, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    stuck = [
        asyncio.create_task(PATIENT.post("http://dead.example/", {}, b"{}")) for _ in range(64)
    ]
    try:
        with receiving() as receiver:
            assert (await PATIENT.post(receiver.url(), {}, b"{}")).status == 204
        assert await asyncio.to_thread(lambda: "free") == "free"
        assert not any(each.done() for each in stuck)
    finally:
        for each in stuck:
            each.cancel()
        await asyncio.wait(stuck)
        ending.set()


# TLS


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Makes a certificate for an address, signed by itself."""

    def make(name: str) -> tuple[Path, Path]:
        key, crt = tmp_path / "key.pem", tmp_path / "crt.pem"
        words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x"
        extension = f"subjectAltName={name}"
        subprocess.run(
            ["openssl", *words.split(), "-keyout", key, "-out", crt, "-addext", extension],
            check=True,
            capture_output=True,
            timeout=60,
        )
        return crt, key

    return make


def serving_tls(crt: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(crt, key)
    return context


async def test_a_trusted_certificate_is_talked_to(
    certificate: Callable[[str], tuple[Path, Path]],
) -> None:
    crt, key = certificate("IP:127.0.0.1")
    trusting = ssl.create_default_context(cafile=str(crt))
    post = HttpPost("CodeHub/test", connect_seconds=60, total_seconds=60, context=trusting)
    with receiving(serving_tls(crt, key)) as receiver:
        assert (await post.post(receiver.url(), {}, b"{}")).status == 204
        await post.reach(receiver.url())
        assert len(receiver.got) == 1


@pytest.mark.parametrize("known", [False, True], ids=["an unknown authority", "another name"])
async def test_a_certificate_that_proves_nothing_gets_nothing(
    certificate: Callable[[str], tuple[Path, Path]], known: bool
) -> None:
    crt, key = certificate("DNS:elsewhere.example" if known else "IP:127.0.0.1")
    context = ssl.create_default_context(cafile=str(crt)) if known else None
    post = HttpPost("CodeHub/test", connect_seconds=60, total_seconds=60, context=context)
    with receiving(serving_tls(crt, key)) as receiver:
        with pytest.raises(Unreachable, match=r"the certificate of 127\.0\.0\.1 is not trusted: "):
            await post.post(receiver.url("/canary"), {}, b"{}")
        assert receiver.got == []


async def test_no_tls_where_it_is_wanted() -> None:
    async with raw(OK, listens=False) as (url, _):
        with pytest.raises(Unreachable, match="does not speak TLS"):
            await PATIENT.reach(url.replace("http:", "https:"))
