"""The demo workspace: pages below any prefix, notes that are whole or untouched, its process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.adapters.process.probe import free_port
from codehub.demo.messages import MAX_BODY, Bad, parse_head
from codehub.demo.notes import Notes
from codehub.demo.terminal import HELP, duration, reply
from codehub.demo.websocket import Opcode
from tests.unit.demo_client import NOW, Client, serving

pytestmark = pytest.mark.anyio

REPOSITORY = Path(__file__).resolve().parents[2]


# ---- Pages ----


@pytest.mark.parametrize("prefix", ["", "/w/api"], ids=["stripped", "kept"])
async def test_it_serves_with_its_prefix_stripped_or_kept(tmp_path: Path, prefix: str) -> None:
    async with serving(tmp_path, "/w/api/") as client:
        page = await client.ask("GET", f"{prefix}/")
        style = await client.ask("GET", f"{prefix}/style.css?v=1")
        info = await client.ask("GET", f"{prefix}/api/info")

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert style.headers["content-type"].startswith("text/css")
    assert b'"workspace": "api"' in info.body


async def test_the_prefix_without_its_slash_leads_to_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path, "/w/api") as client:
        bare = await client.ask("GET", "/w/api")
        longer = await client.ask("GET", "/w/apis/")

    assert (bare.status, bare.headers["location"]) == (308, "/w/api/")
    assert longer.status == 404


async def test_the_page_needs_nothing_from_elsewhere_and_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        page = await client.ask("GET", "/")
        text = page.body.decode()
        used = re.findall(r'(?:src|href)="([^"#]+)"', text)
        answers = [await client.ask("GET", f"/{each}") for each in used]

    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert set(used) == {"icon.svg", "style.css", "app.js"}
    assert all(each.status == 200 for each in answers)
    assert not re.search(r"<script(?! src)|<style| on\w+=| style=", text), "nothing inline"


async def test_head_and_connections_that_close(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        head = await client.ask("HEAD", "/")
        last = await client.ask("GET", "/", Connection="close")

        assert head.headers["content-length"] == last.headers["content-length"]
        assert last.headers["connection"] == "close"
        assert await client.ended()


@pytest.mark.parametrize(
    "path",
    [
        "/../notes.txt",
        "/static/../../etc/passwd",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "//etc/passwd",
        "/secret",
        "/api/notes/../../secret",
        "/app.js/../secret",
        "/.",
    ],
)
async def test_no_path_leads_to_a_file_of_the_home_or_beyond(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("canary")
    async with serving(tmp_path) as client:
        answer = await client.ask("GET", path)

    assert answer.status == 404
    assert b"canary" not in answer.body


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nName : x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
        ("PUT /api/notes HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        ("PUT /api/notes HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("PUT /api/notes HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 413),
        ("PUT /api/notes HTTP/1.1\r\nContent-Length: " + "9" * 5000 + "\r\n\r\n", 413),
        ("PUT /api/notes HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        ("GET / HTTP/1.1\r\nA: " + "x" * 100_000 + "\r\n\r\n", 431),
    ],
)
async def test_what_is_not_a_plain_request_ends_the_connection(
    tmp_path: Path, head: str, status: int
) -> None:
    async with serving(tmp_path) as client:
        client.writer.write(head.encode())
        answer = await client.answer()

        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await client.ended()
    assert list_of(tmp_path) == []


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    with suppress(Bad):
        request = parse_head(head + b"\r\n\r\n")
        assert request.path.startswith("/")
        assert all(name == name.lower() for name in request.headers)


# ---- Notes ----


def list_of(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


async def test_notes_are_kept_in_the_home(tmp_path: Path) -> None:
    text = "größer\nals nichts\n".encode()
    async with serving(tmp_path) as client:
        empty = await client.ask("GET", "/api/notes")
        saved = await client.ask("PUT", "/api/notes", body=text, If_Match=empty.headers["etag"])
        again = await client.ask("GET", "/api/notes")

    assert (empty.status, empty.body) == (200, b"")
    assert saved.status == 204
    assert (again.body, again.headers["etag"]) == (text, saved.headers["etag"])
    assert list_of(tmp_path) == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_bytes() == text


async def test_what_another_window_saved_is_not_overwritten(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        before = (await client.ask("GET", "/api/notes")).headers["etag"]
        await client.ask("PUT", "/api/notes", body=b"theirs", If_Match=before)
        refused = await client.ask("PUT", "/api/notes", body=b"mine", If_Match=before)
        kept = (tmp_path / "notes.txt").read_bytes()
        forced = await client.ask("PUT", "/api/notes", body=b"mine")

    assert refused.status == 412
    assert kept == b"theirs"
    assert forced.status == 204
    assert (tmp_path / "notes.txt").read_bytes() == b"mine"


async def test_another_site_cannot_write(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        refused = await client.ask("PUT", "/api/notes", body=b"x", Origin="https://evil.test")
        null = await client.ask("PUT", "/api/notes", body=b"x", Origin="null")
        direct = await client.ask("PUT", "/api/notes", body=b"x", Origin="http://hub.test")
        proxied = await client.ask(
            "PUT", "/api/notes", body=b"x", Origin="https://a.test", X_Forwarded_Host="a.test"
        )

    assert [each.status for each in (refused, null, direct, proxied)] == [403, 403, 204, 204]


async def test_other_methods_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        answers = [await client.ask(each, "/api/notes") for each in ("POST", "DELETE", "OPTIONS")]

    assert {each.status for each in answers} == {405}
    assert list_of(tmp_path) == []


async def test_the_largest_notes_fit_exactly(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        saved = await client.ask("PUT", "/api/notes", body=b"x" * MAX_BODY)
        read = await client.ask("GET", "/api/notes")

    assert saved.status == 204
    assert len(read.body) == MAX_BODY


@pytest.mark.parametrize("trap", ["link", "pipe", "directory"])
async def test_something_else_in_their_place_is_not_followed(tmp_path: Path, trap: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "secret"
    home.mkdir()
    outside.write_text("canary")
    if trap == "link":
        (home / "notes.txt").symlink_to(outside)
    elif trap == "pipe":
        os.mkfifo(home / "notes.txt")
    else:
        (home / "notes.txt").mkdir()

    async with serving(home) as client:
        read = await client.ask("GET", "/api/notes")
        await client.ask("PUT", "/api/notes", body=b"new")

    assert read.status == 500
    assert b"could not read" in read.body
    assert b"canary" not in read.body
    assert outside.read_text() == "canary"


def test_what_an_interrupted_save_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".notes.txt.new").symlink_to(tmp_path / "elsewhere")

    Notes(tmp_path).write(b"text", seen=None)

    assert list_of(tmp_path) == ["notes.txt"]


# ---- The terminal's words ----


def test_each_word_has_its_answer(tmp_path: Path) -> None:
    def ask(line: str) -> str:
        started_at = NOW - timedelta(hours=2, minutes=10)
        return reply(line, home=tmp_path, now=NOW, started_at=started_at)

    assert ask("help") == HELP
    assert ask(" ls ") == "(nothing yet)"
    assert ask("date") == "2026-11-01 12:00:00 UTC"
    assert ask("uptime") == "awake for 2h 10m"
    assert ask("pid") == str(os.getpid())
    assert ask("ls /etc") == "ls /etc"
    assert ask("") == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (185, "3m 5s"), (3600, "1h 0m"), (100 * 3600, "4d 4h")]
)
def test_a_duration_is_short(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


# ---- As a process ----


def test_it_serves_where_it_is_told_and_ends_at_sigterm(tmp_path: Path) -> None:
    port = free_port(())
    with subprocess.Popen(
        [sys.executable, "-m", "codehub.demo"],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(tmp_path),
            "PORT": str(port),
            "CODEHUB_WORKSPACE": "payments-api",
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            asyncio.run(_visit(port, process))
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == 0
    assert output == f"payments-api: http://127.0.0.1:{port}/ keeps notes in {tmp_path}\n"


async def _visit(port: int, process: subprocess.Popen[str]) -> None:
    """Wait until it answers, and be there with an open socket when it is told to end."""
    async with asyncio.timeout(60):
        while True:
            try:
                client = Client(*await asyncio.open_connection("127.0.0.1", port))
                break
            except OSError:
                await asyncio.sleep(0.05)
        assert (await client.upgrade("/terminal")).status == 101
        assert (await client.heard())[0] == Opcode.TEXT
        process.send_signal(signal.SIGTERM)
        assert await client.ended()
        client.writer.close()
