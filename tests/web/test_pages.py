"""The dashboard's pages as they are served: who sees what, and what is around every one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from codehub.model.people import Hub
from codehub.model.revision import Origin
from codehub.model.states import Phase
from codehub.render.dashboard import POLICY
from codehub.render.dashboard_assets import assets
from codehub.specs.load import load_contents
from codehub.store.hubs import write_hub
from codehub.store.revisions import record_applied, record_failed
from tests.integration.stored import change
from tests.web.browsing import look
from tests.web.plan_world import SPECS
from tests.web.web_world import at_rest

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

BAD = "\"><img src=x onerror=alert(1)>{{ 'z' * 9 }}"
PAGES = ["/", "/workspaces/ana-running", "/workspaces/ana-running/logs", "/tokens", "/report"]
OF_ONE = ["", "/card", "/logs"]


async def test_every_page_is_html_that_nobody_keeps_under_a_strict_policy(
    ana: httpx.AsyncClient,
) -> None:
    for path in PAGES:
        page = await look(ana, path)
        assert page.status == 200, page.text
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-store"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "'unsafe-" not in policy
        assert policy == POLICY or path == "/report"


async def test_every_page_says_whose_hub_it_is(
    world: WebWorld, ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    await write_hub(world.conn, Hub("atlas"))
    for client, path in (*((ana, path) for path in PAGES), (root, "/admin")):
        page = await look(client, path)
        assert re.search(r"CodeHub(</span>)? ?<span[^>]*>atlas</span>", page.text), path


async def test_whoever_is_not_logged_in_is_shown_the_way(stranger: httpx.AsyncClient) -> None:
    for path in (*PAGES, "/admin", "/admin/plan", "/summary"):
        page = await look(stranger, f"{path}?a=1&b=%2F")
        assert page.status == 303
        wanted = f"/login?next={path.replace('/', '%2F')}%3Fa%3D1"
        assert page.headers["location"].startswith(wanted)
        program = await stranger.get(path)
        assert program.status_code == 401


async def test_a_member_sees_their_own_and_an_admin_sees_all(
    ana: httpx.AsyncClient, bob: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    anas, bobs = (await look(ana, "/")).rows, (await look(bob, "/")).rows
    assert anas == sorted(anas)
    assert all(name.startswith("ana-") for name in anas)
    assert bobs == ["bob-archived", "bob-running", "bob-standby"]
    assert (await look(root, "/")).rows == [*anas, *bobs]
    assert (await look(root, "/?owner=bob")).rows == bobs
    assert (await look(ana, "/?owner=bob")).rows == [], "what is asked for is not what is given"


async def test_somebody_elses_workspace_is_as_little_there_as_none(
    ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    for end in OF_ONE:
        theirs = await look(ana, f"/workspaces/bob-running{end}")
        none = await look(ana, f"/workspaces/nobodys{end}")
        assert theirs.status == none.status == 404
        assert theirs.text == none.text
        assert "bob-running" not in theirs.text
        assert (await look(root, f"/workspaces/bob-running{end}")).status == 200


async def test_what_is_no_name_is_not_there(ana: httpx.AsyncClient) -> None:
    for name in ("%00", "a%2Fb", "A", "x" * 300, "%22%3E", "ana-deleted", "%ff"):
        for end in OF_ONE:
            assert (await look(ana, f"/workspaces/{name}{end}")).status == 404


async def test_for_members_there_is_no_admin(ana: httpx.AsyncClient) -> None:
    for path in ("/admin", "/admin/plan"):
        page = await look(ana, path)
        assert (page.status, "Not found" in page.words) == (404, True)
        assert page.text == (await look(ana, "/nowhere")).text
    assert 'href="/admin"' not in (await look(ana, "/")).text


async def test_an_address_that_leads_nowhere_is_a_page_for_people_and_a_problem_for_programs(
    ana: httpx.AsyncClient,
) -> None:
    page = await look(ana, "/nowhere")
    assert (page.status, "All workspaces" in page.words) == (404, True)
    assert "Logged in as ana" in page.words
    for path in ("/nowhere", "/api/v1/nowhere"):
        program = await ana.get(path)
        assert program.status_code == 404
        assert program.headers["content-type"] == "application/problem+json"
    assert (await look(ana, "/api/v1/nowhere")).headers["content-type"].endswith("problem+json")


async def test_the_list_is_narrowed_by_what_the_address_says(ana: httpx.AsyncClient) -> None:
    assert (await look(ana, "/?phase=RUNNING")).rows == ["ana-running"]
    assert (await look(ana, "/?q=PAYMENTS")).rows == ["ana-standby"]
    assert (await look(ana, "/?q=-st&phase=standby")).rows == ["ana-standby", "ana-starting"]
    nothing = await look(ana, "/?q=%25&phase=ERROR")
    assert (nothing.rows, "Nothing matches" in nothing.words) == ([], True)
    odd = await look(ana, "/?phase=ASLEEP&q=%00&owner=%00&after=%00")
    assert odd.status == 200
    assert len(odd.rows) == len((await look(ana, "/")).rows)


async def test_a_large_hub_is_shown_a_page_at_a_time(
    world: WebWorld, bob: httpx.AsyncClient
) -> None:
    many = [at_rest(f"many-{n:03}", 100 + n, Phase.ARCHIVED, "bob") for n in range(120)]
    await world.add(*many)
    first = await look(bob, "/?phase=ARCHIVED")
    assert len(first.rows) == 100
    assert "Archived 121" in first.words, "all are counted"
    ((link),) = re.findall(r'rel="next" href="([^"]*)"', first.text)
    second = await look(bob, link.replace("&amp;", "&"))
    assert first.rows + second.rows == ["bob-archived", *(each.name for each in many)]
    assert 'rel="next"' not in second.text
    assert "First page" in second.words


async def test_counts_and_limits_are_those_of_the_person(
    ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    words = (await look(ana, "/")).words
    assert "All 8 Running 1 Standby 3 Archived 1 Error 1 Pending 1 Deleting 1" in words
    assert "3 of 1000 places of yours in use" in words
    assert "in all" not in words
    assert "0 of 1000 places of yours in use 4 of 1000 in all" in (await look(root, "/")).words
    assert (await look(ana, "/summary?phase=ERROR")).words.count("Error 1") == 1


async def test_a_row_says_what_it_does_and_what_comes_next(ana: httpx.AsyncClient) -> None:
    card = await look(ana, "/workspaces/ana-starting/card")
    assert "Starting…" in card.text
    assert "<progress" in card.text
    assert card.forms("Stop ana-starting") == [], "nothing is offered while something is under way"
    error = await look(ana, "/workspaces/ana-error/card")
    assert "The port never answered" in error.text
    assert len(error.forms("Try again ana-error")) == 1
    running = (await look(ana, "/workspaces/ana-running/card")).text
    assert re.search(r"Sleeps <time [^>]*>any moment now</time>", running)
    assert 'href="http://ana-running.localhost/"' in running


async def test_admins_are_told_of_specs_that_could_not_be_loaded(
    world: WebWorld, ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    await record_failed(
        world.conn,
        digest="d",
        origin=Origin("specs"),
        problems=(f"x.yaml:1: {BAD}", "y.yaml:2: no owner"),
        author="watcher",
        source="watch",
    )
    page = await look(root, "/")
    assert "The specs could not be loaded" in page.words
    assert "and 1 more" in page.words
    assert "<img" not in page.text
    assert "y.yaml:2: no owner" in (await look(root, "/admin")).words
    assert "could not be loaded" not in (await look(ana, "/")).words


async def test_what_is_above_the_list_is_had_by_itself(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    assert "could not be loaded" not in (await look(root, "/summary")).words
    await record_failed(
        world.conn,
        digest="d",
        origin=Origin("specs"),
        problems=("x.yaml:1: no owner",),
        author="watcher",
        source="watch",
    )
    part = await look(root, "/summary")
    assert "x.yaml:1: no owner" in part.words
    assert "All 11" in part.words
    assert "<html" not in part.text


FOLLOWED = {
    "/": "/api/v1/events",
    "/?did=stop&to=ana-running": "/api/v1/events",
    "/?owner=bob": "/api/v1/events?owner=bob",
    "/?phase=RUNNING": "/api/v1/events?names=ana-running,bob-running",
    "/?q=bob-s&owner=bob": "/api/v1/events?names=bob-standby",
    "/?after=bob-running": "/api/v1/events?names=bob-standby",
    "/workspaces/ana-running": "/api/v1/events?names=ana-running",
    "/?after=zzz": "",
    "/?owner=%3Cb%3E": "",
    "/admin": "",
}


async def test_a_page_follows_what_it_shows_and_not_the_whole_hub(root: httpx.AsyncClient) -> None:
    for path, expected in FOLLOWED.items():
        page = await look(root, path)
        assert re.findall(r'data-events="([^"]*)"', page.text) == [expected] * bool(expected), path


async def test_the_admins_page_tells_of_people_and_the_hub(root: httpx.AsyncClient) -> None:
    page = await look(root, "/admin")
    assert page.status == 200
    assert "ana 3 of 1000 ana-pending, ana-running, ana-starting" in page.words
    assert "none leads: nothing is started" in page.words
    assert "Revision 1 in force" in page.words
    unplannable = await look(root, "/admin/plan")
    assert "problem" in unplannable.words, "this hub was filled by hand: no specs declare it"


async def test_the_plan_leads_back_to_where_one_came_from(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    specs = load_contents({path: text.encode() for path, text in SPECS.items()}, Origin("specs"))
    await record_applied(world.conn, specs, author="root", source="cli", summary={"create": 6})
    assert "in force 6 created" in (await look(root, "/admin")).words
    page = await look(root, "/admin/plan")
    assert (page.status, 'href="/admin"' in page.text) == (200, True)


async def test_what_to_do_is_said_with_the_buttons_of_the_page(ana: httpx.AsyncClient) -> None:
    page = await look(ana, "/workspaces/ana-error")
    assert "then press “Try again”" in page.words
    archived = await look(ana, "/workspaces/ana-archived/card")
    assert "“Restore” brings it back" in archived.words
    for each in (page, archived):
        assert "codehub" not in each.text.partition("<main")[2]
    told = (await ana.get("/api/v1/workspaces/ana-error")).json()
    assert "'codehub recover ana-error'" in told["advice"], "programs are told of commands"


async def test_a_workspaces_page_explains_it_and_pages_through_its_audit(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    await world.rows(
        "INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by,"
        " reason) SELECT id, name, 'desired', 'STANDBY', 'RUNNING', 'api', 'ana', 'number ' || n"
        " FROM workspaces, generate_series(1, 50) n WHERE name = 'ana-running'"
    )
    page = await look(ana, "/workspaces/ana-running")
    assert "ana-running has been RUNNING" in page.words
    assert "workspaces.yaml:2" in page.words
    assert "team=payments" in page.words
    assert len(page.forms("Still working ana-running")) == 1
    assert "number 49 " in page.words
    assert "number 20 " not in page.words
    (link,) = re.findall(r'rel="next" href="([^"#]*)', page.text)
    older = await look(ana, link)
    assert "number 20 " in older.words
    assert "number 49 " not in older.words


async def test_what_others_wrote_is_text_on_every_page(
    world: WebWorld, ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    for name in ("ana-running", "ana-error"):
        await change(world.conn, name, description=BAD, memo=BAD, error_message=BAD)
    await world.rows("UPDATE users SET display_name = %s", BAD)
    await world.rows(
        "INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by,"
        " reason) SELECT id, name, 'desired', %s, %s, %s, %s, %s FROM workspaces",
        *[BAD] * 5,
    )
    for client, path in (
        *((ana, path) for path in PAGES),
        (ana, "/workspaces/ana-error"),
        (ana, "/workspaces/ana-error/card"),
        (ana, f"/?q={BAD}"),
        (root, "/admin"),
        (root, f"/?owner={BAD}"),
    ):
        page = await look(client, path)
        assert page.status == 200
        assert "<img" not in page.text
        assert "z" * 9 not in page.text


async def test_the_address_can_make_the_hub_say_only_what_it_says(ana: httpx.AsyncClient) -> None:
    assert "ana-running is being stopped." in (await look(ana, "/?did=stop&to=ana-running")).words
    for query in ("did=stop&to=<b>", "did=nonsense&to=ana", "did=stop", f"did={BAD}&to=x"):
        assert 'class="flash' not in (await look(ana, f"/?{query}")).text


async def test_assets_are_kept_for_ever_under_names_that_change(
    stranger: httpx.AsyncClient, ana: httpx.AsyncClient
) -> None:
    page = await look(ana, "/")
    for path, asset in assets().items():
        assert path in page.text
        answer = await stranger.get(path)
        assert answer.content == asset.content
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"] == asset.kind
        assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/assets/dashboard.js", "/assets/..%2fpage.css", "/assets/dashboard.0.js"):
        assert (await stranger.get(path)).status_code == 404


async def test_pages_are_not_in_the_apis_document(ana: httpx.AsyncClient) -> None:
    paths = (await ana.get("/api/v1/openapi.json")).json()["paths"]
    assert all(path.startswith("/api/") for path in paths if path not in ("/healthz", "/readyz"))


async def test_without_a_way_to_the_runtime_the_logs_page_says_so(ana: httpx.AsyncClient) -> None:
    page = await look(ana, "/workspaces/ana-running/logs")
    assert "codehub logs ana-running" in page.words
    assert "data-follow" not in page.text
