"""Log lines: what they carry, how they look, and what never gets into them."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from typing import Any
from uuid import UUID

import pytest
import structlog

from codehub.model.states import Operation
from codehub.telemetry.logs import HANDLER, bound, request_id, set_up
from tests.telemetry.shown import lines

log = logging.getLogger("codehub.coordinator")
CANARY = "canary-6f1d"


def said(stream: io.StringIO) -> list[str]:
    """What lines for people say, after when, how bad and which part."""
    found = [
        re.fullmatch(r"\d\d:\d\d:\d\d INFO codehub\.coordinator: (.*)", each)
        for each in stream.getvalue().splitlines()
    ]
    assert all(found)
    return [each[1] for each in found if each]


def test_a_line_for_people_is_as_short_as_can_be(stream: io.StringIO) -> None:
    set_up(stream)
    log.info("%s: %d of %d", "api", 1, 2)
    assert said(stream) == ["api: 1 of 2"]


def test_a_line_for_people_ends_with_what_it_is_about(stream: io.StringIO) -> None:
    set_up(stream)
    op_id = UUID("0192d3b0-7c1e-7b8a-9a53-0f6f3e0c9d11")
    with bound(workspace="api", operation=Operation.STARTING, op_id=op_id, revision=41):
        log.info("slow")
    with bound(request_id="req-7"):
        log.info("GET / failed")
    assert said(stream) == [
        "slow workspace=api operation=STARTING op_id=0192d3b0 revision=41",
        "GET / failed request_id=req-7",
    ]


def test_a_line_for_people_says_nothing_twice(stream: io.StringIO) -> None:
    set_up(stream)
    with bound(workspace="api", operation=Operation.STARTING):
        log.info("api: STARTING: the image does not exist")
        log.info("api-2 waits for STARTING")
        log.info("restarting rapid (api)")
    with bound(revision=4):
        log.info("specs: revision 4 loaded")
        log.info("specs: 4 of 10 read")
    assert said(stream) == [
        "api: STARTING: the image does not exist",
        "api-2 waits for STARTING workspace=api",
        "restarting rapid (api) operation=STARTING",
        "specs: revision 4 loaded",
        "specs: 4 of 10 read revision=4",
    ]


def test_a_line_for_machines_carries_what_it_is_about(stream: io.StringIO) -> None:
    set_up(stream, form="json")
    fields = {"workspace": "api", "operation": Operation.STARTING, "op_id": UUID(int=1)}
    with bound(**fields, revision=41, request_id=None):
        log.warning("%s: slow", "api")
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "workspace": "api",
        "operation": "STARTING",
        "op_id": "00000000-0000-0000-0000-000000000001",
        "revision": 41,
        "event": "api: slow",
        "level": "warning",
        "logger": "codehub.coordinator",
    }


def test_lines_outside_carry_nothing_of_it(stream: io.StringIO) -> None:
    set_up(stream, form="json")
    with bound(workspace="api"), bound(operation="STARTING"):
        log.info("within")
    log.info("after")
    within, after = lines(stream)
    assert (within["workspace"], within["operation"]) == ("api", "STARTING")
    assert not {"workspace", "operation"} & after.keys()


@pytest.mark.anyio
async def test_tasks_side_by_side_keep_their_own(stream: io.StringIO) -> None:
    set_up(stream, form="json")
    both = asyncio.Barrier(2)

    async def work(name: str) -> None:
        with bound(workspace=name):
            await both.wait()
            log.info("of %s", name)
            await both.wait()

    await asyncio.gather(work("one"), work("two"))
    assert {(each["event"], each["workspace"]) for each in lines(stream)} == {
        ("of one", "one"),
        ("of two", "two"),
    }


def test_work_in_threads_carries_it_too(stream: io.StringIO) -> None:
    set_up(stream, form="json")

    async def work() -> None:
        with bound(workspace="api"):
            await asyncio.to_thread(log.info, "in a thread")

    asyncio.run(work())
    assert lines(stream)[0]["workspace"] == "api"


def test_what_is_less_than_asked_for_is_not_logged(stream: io.StringIO) -> None:
    set_up(stream, level=logging.WARNING)
    log.info("quiet")
    log.warning("heard")
    assert "quiet" not in stream.getvalue()
    assert "heard" in stream.getvalue()


def test_libraries_are_heard_from_warnings_on(stream: io.StringIO) -> None:
    set_up(stream, level=logging.DEBUG)
    logging.getLogger("botocore").info("chatter")
    logging.getLogger("psycopg.pool").warning("refused once more")
    logging.getLogger("botocore").warning("trouble")
    assert stream.getvalue().count("\n") == 1
    assert "WARNING botocore: trouble" in stream.getvalue()


def test_the_last_set_up_counts(stream: io.StringIO) -> None:
    set_up(io.StringIO())
    set_up(stream)
    log.info("once")
    assert stream.getvalue().count("once") == 1
    ours = [each for each in logging.getLogger().handlers if each.get_name() == HANDLER]
    assert len(ours) == 1


def test_loggers_of_structlog_go_the_same_way(stream: io.StringIO) -> None:
    set_up(stream, form="json")
    with bound(request_id="r-1"):
        structlog.get_logger("codehub.web").info("served", path="/")
    (line,) = lines(stream)
    assert (line["event"], line["path"], line["request_id"]) == ("served", "/", "r-1")
    assert line["logger"] == "codehub.web"


def test_a_traceback_is_kept_without_the_values_of_variables(stream: io.StringIO) -> None:
    set_up(stream, form="json")

    def fail(secret: str) -> None:
        raise ValueError(f"after {len(secret)} characters")

    try:
        fail(CANARY)
    except ValueError:
        log.exception("it failed")
    (line,) = lines(stream)
    assert "ValueError: after 11 characters" in line["exception"]
    assert CANARY not in stream.getvalue()


def test_a_traceback_for_people(stream: io.StringIO) -> None:
    set_up(stream)
    try:
        raise ValueError("no")
    except ValueError as error:
        log.error("it failed", exc_info=error)
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR codehub.coordinator: it failed")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "ValueError: no"


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    "text",
    [
        f"cannot reach postgresql://codehub:{CANARY}@db.internal/codehub",
        f"cannot reach redis://:{CANARY}@redis.internal:6379/0",
        f"connection failed: host=db user=codehub password={CANARY} port=5432",
        f"GET /page?token={CANARY}&next=/",
        f"GET /login/link?code={CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"the token chub_{CANARY} is unknown",
    ],
)
def test_what_looks_like_a_secret_is_masked(stream: io.StringIO, form: Any, text: str) -> None:
    set_up(stream, form=form)
    log.warning("%s", text)
    with bound(workspace=text):
        log.warning("in a field")
    try:
        raise RuntimeError(text)
    except RuntimeError:
        log.exception("in a traceback")
    assert CANARY not in stream.getvalue()
    assert stream.getvalue().count("***") == 3


def test_addresses_without_a_password_stay_readable(stream: io.StringIO) -> None:
    set_up(stream)
    log.info("reached postgresql://db.internal:5432/codehub, not http://10.0.0.1:80/a@b")
    assert "postgresql://db.internal:5432/codehub, not http://10.0.0.1:80/a@b" in stream.getvalue()


def test_a_line_stays_one_line_and_moves_no_cursor(stream: io.StringIO) -> None:
    """Somebody may have put it into a header, to look like a line of ours."""
    set_up(stream)
    with bound(workspace="a\nb"):
        log.info("from %s", "a\n12:00:00 INFO codehub.coordinator: all is well\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert r"a\n12:00:00" in stream.getvalue()


@pytest.mark.parametrize("given", [b"0af7651916cd43dd", b"a.b-c_d", b"x" * 64])
def test_a_request_keeps_the_name_it_came_with(given: bytes) -> None:
    assert request_id(given) == given.decode()


@pytest.mark.parametrize("given", [None, b"", b"x" * 65, b"a b", b"a\nb", b"\xff"])
def test_and_gets_one_where_that_is_none(given: bytes | None) -> None:
    made = request_id(given)
    assert re.fullmatch(r"[0-9a-f]{16}", made)
    assert made != request_id(given)
