"""`codehub open`: the address, the wake, and the way in for those without a password."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from codehub.cli.addresses import NOTE, noted
from codehub.model.access import Visitor
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Intent, Status
from codehub.service.links import redeem
from codehub.service.sessions import Lasting
from codehub.store.connect import connect
from codehub.store.events import events
from tests.integration.command_line import run_codehub
from tests.integration.stored import insert, live
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from codehub.model.workspace import Workspace
    from tests.integration.command_line import Ran

PUBLIC = "https://hub.example.com"


def resting(phase: Phase, name: str = "api", number: int = 1) -> Workspace:
    intent = Intent(DesiredState(phase.value), IntentSource.TTL)
    return workspace(name, number=number, intent=intent, status=Status(phase))


class Place:
    """A hub, and somebody in front of a terminal."""

    def __init__(self, url: str, root: Path) -> None:
        self.url = url
        self.root = root

    def does(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with await connect(self.url) as conn:
                return await work(conn)

        return asyncio.run(run())

    def open(self, *words: str, **env: str) -> Ran:
        given = {"DATABASE_URL": self.url, "PROXY_PUBLIC_URL": PUBLIC, **env}
        return run_codehub("open", *words, cwd=self.root, env=given)


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Place:
    found = Place(database_url, tmp_path)
    rows = [resting(Phase.STANDBY), resting(Phase.ARCHIVED, "old", 2)]
    found.does(lambda conn: insert(conn, *rows))
    return found


def test_it_prints_the_address_and_wakes(place: Place) -> None:
    ran = place.open("api", "--print")
    assert (ran.code, ran.out, ran.err) == (0, f"{PUBLIC}/w/api/\n", "")
    assert place.does(lambda conn: live(conn, "api")).intent.desired is DesiredState.RUNNING
    (event,) = place.does(lambda conn: events(conn, "api"))
    assert (event.source, event.reason) == ("visit", "opened on the command line")


def test_it_need_not_wake(place: Place) -> None:
    assert place.open("api", "--no-wake").out == f"{PUBLIC}/w/api/\n"
    assert place.does(lambda conn: live(conn, "api")).intent.desired is DesiredState.STANDBY


def test_what_a_visit_does_not_wake_is_told(place: Place) -> None:
    ran = place.open("old")
    assert (ran.code, ran.out) == (0, f"{PUBLIC}/w/old/\n")
    assert ran.err == "old is archived. The page says more.\n"
    assert place.does(lambda conn: live(conn, "old")).intent.desired is DesiredState.ARCHIVED


def test_without_a_name_it_is_the_hub(place: Place) -> None:
    assert place.open().out == f"{PUBLIC}/\n"


def test_a_name_that_nobody_has_is_an_error(place: Place) -> None:
    ran = place.open("apo")
    assert (ran.code, ran.out) == (1, "")
    assert 'there is no workspace "apo"' in ran.err
    assert 'did you mean "api"' in ran.err


def test_a_login_link_leads_to_the_workspace_once(place: Place) -> None:
    address = urlsplit(place.open("api", "--as", "alice").out.strip())
    assert address.path == "/login/link"
    query = parse_qs(address.query)
    assert query["next"] == ["/w/api/"]
    opened = place.does(lambda conn: redeem(conn, query["code"][0], Visitor(), lasting=Lasting()))
    assert opened.session.person.name == "alice"
    unknown = place.open("api", "--as", "nobody")
    assert unknown.code == 1
    assert 'there is no user "nobody"' in unknown.err


def test_with_a_domain_each_workspace_has_its_host(place: Place) -> None:
    domain = {"PROXY_WORKSPACE_DOMAIN": "ws.example.com"}
    assert place.open("api", **domain).out == "https://api.ws.example.com/\n"
    link = parse_qs(urlsplit(place.open("api", "--as", "alice", **domain).out.strip()).query)
    assert link["next"] == ["/_codehub/go/api"]


def test_a_hub_without_an_address_says_what_to_set(place: Place) -> None:
    ran = place.open("api", PROXY_PUBLIC_URL="")
    assert ran.code == 1
    assert "set PROXY_PUBLIC_URL" in ran.err
    assert place.does(lambda conn: live(conn, "api")).intent.desired is DesiredState.STANDBY


def test_a_hub_of_this_machine_is_found_where_it_serves(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = run_codehub("status", "--data", str(data), cwd=tmp_path)
    assert "no hub here" in made.err
    run_codehub("init", cwd=tmp_path)
    assert run_codehub("apply", "--yes", "--data", str(data), cwd=tmp_path).code == 0
    ran = run_codehub("open", "--data", str(data), cwd=tmp_path)
    assert ran.code == 1
    assert "no 'codehub up' runs on" in ran.err
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with noted(data, port):
            ran = run_codehub("open", "--data", str(data), cwd=tmp_path)
            assert (ran.code, ran.out) == (0, f"http://localhost:{port}/\n")
    assert not (data / NOTE).exists()
    (data / NOTE).write_text(f"http://localhost:{port}\n")
    killed = run_codehub("open", "--data", str(data), cwd=tmp_path)
    assert killed.code == 1, "the note of one that was killed is no address"
