"""`codehub user` and `codehub token`, as a person runs them."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg
import pytest

from codehub.core.fingerprint import fingerprint, looks_like_token
from codehub.model.access import Person, Scope, Token
from codehub.model.people import Role
from codehub.render.tokens_text import tokens_text
from codehub.service.passwords import Passwords
from tests.integration.command_line import PATIENCE, run_codehub

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.command_line import Ran

PASSWORD = "correct horse battery"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


# user hash-password


async def fits(stored: str, password: str) -> bool:
    with Passwords() as passwords:
        return await passwords.verify(stored, password)


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_a_password_from_stdin_is_hashed(tmp_path: Path, end: str) -> None:
    ran = run_codehub("user", "hash-password", cwd=tmp_path, stdin=PASSWORD + end)
    assert (ran.code, ran.err) == (0, "")
    assert await fits(ran.out.strip(), PASSWORD)


@pytest.mark.parametrize(
    ("stdin", "says"),
    [("", "at least 8"), ("short", "at least 8"), ("two\nlines of it", "on one line")],
)
def test_what_is_no_password_makes_nothing(tmp_path: Path, stdin: str, says: str) -> None:
    ran = run_codehub("user", "hash-password", cwd=tmp_path, stdin=stdin)
    assert (ran.code, ran.out) == (64, "")
    assert says in ran.err
    assert "lines of it" not in ran.err


def on_terminal(tmp_path: Path, *typed: str) -> tuple[int, str, str]:
    """Type at the prompts of a real terminal; the code, stdout, and what the terminal showed."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "codehub", "user", "hash-password"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        for number, line in enumerate(typed, 1):
            while shown.count(b": ") < number:
                shown += os.read(ours, 1000)
            os.write(ours, line.encode() + b"\n")
        out, _ = child.communicate(timeout=PATIENCE)
        with suppress(OSError):  # that is how a terminal ends
            while rest := os.read(ours, 1000):
                shown += rest
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    return child.returncode, out.decode(), shown.decode()


@pytest.mark.anyio
async def test_on_a_terminal_it_asks_twice_and_shows_nothing(tmp_path: Path) -> None:
    code, out, shown = on_terminal(tmp_path, PASSWORD, PASSWORD)
    assert code == 0
    assert await fits(out.strip(), PASSWORD)
    assert PASSWORD not in shown
    assert "Once more" in shown


def test_two_that_differ_make_nothing(tmp_path: Path) -> None:
    code, out, shown = on_terminal(tmp_path, PASSWORD, PASSWORD + "x")
    assert (code, out) == (64, "")
    assert PASSWORD not in shown
    assert "not the same" in shown


# token


@pytest.fixture
def url(database_url: str) -> str:
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("INSERT INTO users (name) VALUES ('alice'), ('bob')")
    return database_url


def token(url: str, cwd: Path, *words: str) -> Ran:
    return run_codehub("token", *words, cwd=cwd, env={"DATABASE_URL": url})


def test_a_token_is_made_shown_once_listed_and_revoked(url: str, tmp_path: Path) -> None:
    words = ("ci-plan", "--user", "alice", "--scope", "plan", "--scope", "read", "--expires", "30d")
    made = token(url, tmp_path, "create", *words)
    assert made.code == 0, made.err
    secret = made.out.strip()
    assert looks_like_token(secret.encode())
    assert "good until" in made.err
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT token_hash, scopes, expires_at - created_at FROM api_tokens")
        assert rows.fetchall() == [(fingerprint(secret), ["plan", "read"], timedelta(days=30))]

    listed = token(url, tmp_path, "list")
    assert re.search(r"alice +ci-plan +plan,read", listed.out)
    assert secret not in listed.out
    assert "no tokens" in token(url, tmp_path, "list", "--user", "bob").out

    again = token(url, tmp_path, "create", *words)
    assert (again.code, again.out) == (1, "")
    assert 'there is a token "ci-plan" already' in again.err

    revoked = token(url, tmp_path, "revoke", "ci-plan", "--user", "alice")
    assert revoked.code == 0
    assert "revoked" in revoked.out
    assert token(url, tmp_path, "revoke", "ci-plan", "--user", "alice").code == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("ci", "--scope", "read"), 64, "say whose token it is, with --user"),
        (("ci", "--user", "alice"), 64, "--scope"),
        (("ci", "--user", "alice", "--scope", "all"), 64, "all"),
        (("ci", "--user", "dave", "--scope", "read"), 1, 'no user "dave"'),
        (("C I", "--user", "alice", "--scope", "read"), 64, "a token's name"),
        (("ci", "--user", "alice", "--scope", "read", "--expires", "soon"), 64, "--expires"),
        (("ci", "--user", "alice", "--scope", "read", "--expires", "never"), 64, "--expires"),
    ],
)
def test_a_wrong_wish_makes_nothing(
    url: str, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    ran = token(url, tmp_path, "create", *words)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err
    with psycopg.connect(url) as conn:
        assert conn.execute("SELECT id FROM api_tokens").fetchall() == []


def test_the_only_user_need_not_be_named(url: str, tmp_path: Path) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("UPDATE users SET disabled_at = now() WHERE name = 'bob'")
    assert token(url, tmp_path, "create", "ci", "--scope", "wake").code == 0


def test_the_list_says_whose_what_for_and_until_when() -> None:
    alice = Person(UUID(int=1), "alice", Role.MEMBER)
    made = NOW - timedelta(days=100)
    listed = tokens_text(
        [
            Token(UUID(int=2), alice, "ci", frozenset({Scope.PLAN}), made, NOW, None),
            Token(UUID(int=3), alice, "lab", frozenset({Scope.READ, Scope.WAKE}), made, None, NOW),
        ],
        NOW,
    )
    assert listed.splitlines() == [
        "USER   NAME  SCOPES     CREATED     LAST USED   EXPIRES",
        "alice  ci    plan       2026-08-08  never       2026-11-16 (expired)",
        "alice  lab   read,wake  2026-08-08  2026-11-16  never",
    ]
