"""The dashboard as people use it: a real browser, a real hub, real clicks."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState
from tests.browser.dashboard_pictures import SETTLED, SHOWN, serving
from tests.browser.dashboard_world import (
    FAILS,
    SLOW,
    Looking,
    dashboard_hub,
    declare,
    findings,
    looking,
    stop_all,
    until_desired,
    write_specs,
)
from tests.browser.driven import driven
from tests.end_to_end.hub import DEMO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.hub import Hub

pytestmark = pytest.mark.timeout(300)

ALL = ("api", "web", "docs", "search")
EVERY = {**dict.fromkeys(ALL, DEMO), "slow": SLOW}
LOOKS = ((1400, False), (1400, True), (390, False))
"""Width, and whether it is dark."""
DESCRIBE = """
UPDATE workspaces SET description = %s, generation = generation + 1 WHERE name = 'api' RETURNING 1
"""
GIVE = """
UPDATE workspaces SET owner_user_id = (SELECT id FROM users WHERE name = %s),
    generation = generation + 1
WHERE name = 'docs' RETURNING 1
"""
# The memo is no part of the version: it has the change told at once, and nothing else does.
WORK = """
UPDATE workspaces SET last_access_at = now() - %s * interval '1 hour', memo = %s
WHERE name = 'api' RETURNING 1
"""
BAD = "<img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def up() -> Iterator[Hub]:
    with dashboard_hub(**EVERY) as made:
        yield made


@pytest.fixture
def hub(up: Hub) -> Hub:
    """The same one for every test, with everything asleep."""
    stop_all(up, *EVERY)
    return up


def test_a_workspace_is_started_watched_opened_and_stopped(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        for name in ALL:
            alice.until_row(name, "Standby")
        assert alice.tab.value(f"{alice.row('roots-own')} === null")
        alice.mark()
        alice.press("api", "start")
        alice.until_row("api", "Running", "Sleeps in")
        alice.says("1 of 2 places of yours in use")
        assert alice.has_stayed(), "it was followed live, not by loading the page again"

        alice.press("api", "open")
        alice.tab.until("location.hostname === 'api.localhost' && document.title !== ''")
        alice.says("Notes")

        alice.open("/")
        alice.until_live()
        alice.mark()
        alice.press("api", "stop")
        alice.until_row("api", "Standby")
        assert alice.has_stayed()
        assert alice.complaints == []


def test_it_goes_to_the_archive_and_comes_back(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.open("/workspaces/web")
        alice.until_live()
        alice.mark()
        alice.tab.click("[data-key=ask-archive]")
        alice.says("Nothing is lost")
        alice.tab.click("[data-key=archive]")
        alice.tab.until("document.querySelector('.badge').textContent.trim() === 'Archived'")
        alice.tab.click("[data-key=restore]")
        alice.tab.until("document.querySelector('.badge').textContent.trim() === 'Running'")
        alice.says("STANDBY")
        assert alice.has_stayed()
        assert alice.complaints == []


def test_an_error_is_told_with_its_reason_and_recovered_by_a_click(
    hub: Hub, tmp_path: Path
) -> None:
    declare(hub, **{**EVERY, "search": FAILS})
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        alice.mark()
        hub_knows = "SELECT name FROM workspaces WHERE name = 'search' AND command::text LIKE %s"
        while not hub.ask(hub_knows, "%no luck%"):
            alice.tab.until("true")
        alice.press("search", "start")
        alice.until_row("search", "Error", "exit code 3", "Try again")
        alice.says("Error")
        visit = Looking(hub, alice.tab.beside())
        visit.tab.open(f"http://search.localhost:{hub.port}/")
        visit.says("exit code 3")
        assert_nothing_grave(visit)

        declare(hub, **EVERY)
        while hub.ask(hub_knows, "%no luck%"):
            alice.tab.until("true")
        alice.press("search", "recover")
        alice.until_row("search", "Running")
        assert alice.has_stayed()
        assert alice.complaints == []


def test_where_the_limit_is_reached_room_is_made_with_a_button(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        for name in ("api", "web"):
            alice.press(name, "start")
            alice.until_row(name, "Running", "Open")
        # A row that came by itself leads back to the list as well.
        hub.ask("UPDATE workspaces SET generation = 9, memo = 'x' WHERE name = 'docs' RETURNING 1")
        alice.tab.until(f"{alice.row('docs')}?.classList.contains('changed')")
        alice.press("docs", "start")
        alice.says("docs cannot start yet")
        assert_nothing_grave(alice)
        alice.tab.press("Stop web")
        alice.until_row("docs", "Running")
        alice.until_row("web", "Standby")
        assert alice.complaints == []

        alice.tab.press("Log out")
        alice.says("You are logged out.")
        alice.open("/")
        alice.says("Log in")
        assert_nothing_grave(alice)
    assert hub.rows()["web"].desired == "STANDBY"


def test_two_browsers_see_each_others_changes(hub: Hub, tmp_path: Path) -> None:
    with ExitStack() as stack:
        alice = stack.enter_context(looking(hub, tmp_path / "a", "alice"))
        root = stack.enter_context(looking(hub, tmp_path / "r", "root"))
        for each in (alice, root):
            each.until_live()
            each.mark()
        root.press("api", "start")
        alice.until_row("api", "Running")
        alice.press("api", "stop")
        root.until_row("api", "Standby")
        root.until_row("roots-own", "Standby")
        # What others write is text, also when it arrives later.
        hub.ask(DESCRIBE, BAD)
        for each in (alice, root):
            each.until_row("api", BAD)
            assert each.tab.value("document.querySelector('main img')") is None
            assert each.tab.value("document.title") == "Workspaces · CodeHub"
            assert each.has_stayed()
            assert each.complaints == []
        # A message in the address makes no other list of it.
        alice.open("/?did=stop&to=api")
        alice.says("api is being stopped.")
        alice.until_live()
        alice.mark()
        declare(hub, **{**EVERY, "brand-new": DEMO})
        for each in (alice, root):
            each.until_row("brand-new", "Standby")
            assert each.has_stayed()


def test_what_went_while_nobody_looked_is_gone(hub: Hub, tmp_path: Path) -> None:
    with ExitStack() as stack:
        alice = stack.enter_context(looking(hub, tmp_path / "a", "alice"))
        root = stack.enter_context(looking(hub, tmp_path / "r", "root"))

        def give(name: str) -> None:
            hub.ask(GIVE, name)
            root.until_row("docs", f"{name} ·")  # by now everybody was told who is to be

        root.until_live()
        alice.open("/workspaces/docs")
        alice.until_live()
        alice.hide()
        give("root")
        alice.show()
        alice.tab.until("location.pathname === '/'")
        alice.until_live()
        assert alice.tab.value(f"{alice.row('docs')} === null")

        give("alice")
        alice.until_row("docs", "Standby")
        alice.open("/?q=do")
        alice.until_live()
        alice.mark()
        alice.hide()
        give("root")
        alice.show()
        alice.tab.until(f"{alice.row('docs')} === null")
        give("alice")
        alice.until_row("docs", "Standby")
        assert alice.has_stayed()
        assert alice.complaints == []


def test_a_page_hears_of_no_more_than_it_shows(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "root") as root:
        for path, query in (
            ("/workspaces/api", "?names=api"),
            ("/?q=roots", "?names=roots-own"),
            ("/?owner=root", "?owner=root"),
        ):
            root.open(path)
            root.until_live()
            assert root.asked("/api/v1/events")[-1] == query
        assert root.complaints == []


def test_a_workspaces_page_tells_that_somebody_works(hub: Hub, tmp_path: Path) -> None:
    hub.ask(WORK, 3, "before")
    with looking(hub, tmp_path, "alice") as alice:
        alice.open("/workspaces/api")
        alice.says("Last activity 3 h ago")
        alice.until_live()
        alice.mark()
        alice.tab.click("[data-key=ask-archive]")
        alice.says("Nothing is lost")
        hub.ask(WORK, 0, "after")
        alice.says("Last activity just now")
        assert alice.tab.value("document.querySelector('details.confirm').open")
        assert alice.has_stayed()
        assert alice.complaints == []


def test_the_admins_page_and_the_notice_come_by_themselves(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "root") as root:
        admin = Looking(hub, root.tab.beside())
        admin.open("/admin")
        for each in (root, admin):
            each.until_live()
            each.mark()
        admin.tab.value("document.querySelector('[data-swap=people] a').focus()")
        hub.want("api", DesiredState.RUNNING)
        admin.says("1 of 2 api")
        assert admin.tab.value("document.activeElement.getAttribute('href')") == "/?owner=alice"
        write_specs(hub, "kind: Nonsense\n")
        root.says("The specs could not be loaded")
        admin.says("could not be loaded")
        declare(hub, **EVERY)
        root.tab.until("!document.querySelector('[data-swap=notice] section')")
        for each in (root, admin):
            assert each.has_stayed()
            assert each.complaints == []
        hub.ask("DELETE FROM sessions RETURNING id")
        admin.says("Logged out")


ENDED = """
void (EventSource.prototype.close = new Proxy(EventSource.prototype.close, {
    apply: (close, stream) => { window.ended = true; close.call(stream); },
}))
"""


# Rows get no answer: so often, or for as long as it is said.
DEAF = """
void (window.fetch = new Proxy(window.fetch, {
    apply: (fetch, page, given) => {
        if (!String(given[0]).endsWith('/card')) return fetch.apply(page, given);
        window.cards = (window.cards || 0) + 1;
        if (window.deaf > 0) { window.deaf -= 1; return Promise.reject(new TypeError('lost')); }
        return fetch.apply(page, given);
    },
}))
"""


@pytest.mark.parametrize(("lost", "streams"), [(1, 1), (2, 2)])
def test_a_row_that_could_not_be_had_is_asked_for_again(
    hub: Hub, tmp_path: Path, lost: int, streams: int
) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        alice.mark()
        alice.tab.value(f"{DEAF}; window.deaf = {lost}")
        hub.ask(DESCRIBE, f"After {lost}")
        alice.until_row("api", f"After {lost}")
        assert alice.tab.value("window.cards") == lost + 1
        assert len(alice.asked("/api/v1/events")) == streams
        assert alice.has_stayed()
        assert alice.complaints == []


def test_a_page_that_grows_old_does_not_say_that_it_is_live(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        alice.mark()
        alice.tab.value(f"{DEAF}; window.deaf = Infinity")
        hub.ask(DESCRIBE, "Told at last")
        alice.says("Reconnecting…")
        alice.tab.value("window.deaf = 0")
        alice.until_row("api", "Told at last")
        alice.until_live()
        assert alice.has_stayed()
        assert alice.complaints == []


def test_whoever_logs_out_elsewhere_is_told_and_nothing_is_asked_again(
    hub: Hub, tmp_path: Path
) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        alice.tab.value(ENDED)
        hub.ask("DELETE FROM sessions RETURNING id")
        alice.says("Logged out")
        assert alice.tab.value("window.ended"), "a browser would come again by itself"
        alice.hide()
        alice.show()
        alice.says("Logged out")
        assert alice.asked("/api/v1/me") == []
        assert alice.asked("/api/v1/events") == [""]
        assert alice.complaints == [], "what is refused is in the console"


def test_what_sentences_say_of_times_goes_on(hub: Hub, tmp_path: Path) -> None:
    hub.want("api", DesiredState.RUNNING)
    hub.until_settled(api="RUNNING")
    with looking(hub, tmp_path, "alice") as alice:
        alice.open("/workspaces/api")
        alice.until_live()
        alice.mark()
        alice.says("api has been RUNNING for")
        told = "document.querySelector('.standfirst time')"
        alice.tab.value(f"void (window.first = {told})")
        alice.tab.value(f"void (window.began = {told}.innerText)")
        alice.tab.until(f"{told}.innerText !== window.began")
        assert alice.tab.value(f"{told} === window.first"), "nothing was loaded for it"
        assert alice.has_stayed()
        assert alice.complaints == []


def test_everything_is_done_with_the_keyboard(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        at = "document.activeElement.textContent"
        alice.key("j")
        alice.tab.until(f"{at} === 'api'")
        alice.key("j")
        alice.key("ArrowDown", 40)
        alice.key("k")
        alice.tab.until(f"{at} !== 'api' && document.activeElement.className === 'name'")
        alice.key("/")
        alice.tab.until("document.activeElement.id === 'q'")
        alice.tab.type("SEAR")
        visible = "[...document.querySelectorAll('tr[data-row]')].filter(r => !r.hidden)"
        alice.tab.until(f"{visible}.map(r => r.dataset.row).join() === 'search'")
        alice.key("ArrowDown", 40)
        alice.tab.until(f"{at} === 'search'")
        alice.key("?")
        alice.tab.until("document.querySelector('dialog').open")
        alice.key("Escape", 27)
        alice.tab.until("!document.querySelector('dialog').open")
        alice.tab.until(f"{at} === 'search'")
        alice.key("Enter", 13)
        alice.tab.until("location.pathname === '/workspaces/search'")
        alice.says("Where it stands")
        alice.until_live()
        alice.key("g")
        alice.tab.until("location.pathname === '/'")
        assert alice.complaints == []


def test_without_scripts_everything_works_too(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.tab.ask("Emulation.setScriptExecutionDisabled", value=True)
        alice.open("/?q=do")
        alice.tab.press("Start docs")
        alice.says("docs is being started.")
        until_desired(hub, "docs", "RUNNING")
        hub.until_settled(docs="RUNNING")
        alice.open("/workspaces/docs")
        alice.tab.click("[data-key=ask-archive]")
        alice.tab.click("[data-key=archive]")
        alice.says("docs is being archived.")
        until_desired(hub, "docs", "ARCHIVED")
        assert alice.complaints == []
    hub.until_settled(docs="ARCHIVED")


def test_the_log_is_followed(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.until_live()
        alice.press("api", "start")
        alice.until_row("api", "Running")
        alice.open("/workspaces/api/logs")
        alice.says("keeps notes in")
        alice.tab.until(
            "document.querySelector('[data-part=log-state]').textContent === 'following'"
        )
        alice.tab.press("Wrap lines")
        alice.tab.until("document.querySelector('pre').classList.contains('wrapped')")
        file = hub.data / "workspaces" / "logs" / f"{hub.rows()['api'].id}.log"
        with file.open("a") as log:
            log.write("\x1b[32mone more\x1b[0m <b>line</b>\n")
        alice.says("one more <b>line</b>")
        assert alice.complaints == []


def test_where_the_log_cannot_be_read_it_is_not_followed(tmp_path: Path) -> None:
    with serving() as site, driven(tmp_path) as tab:
        tab.open(f"{site}/logs-away")
        tab.until("!document.querySelector('[data-part=keys]').hidden")
        assert "The engine gives no answer." in tab.text
        assert tab.complaints == []


# What is wider than its box, where nobody put it there to be scrolled.
CLIPPED = """[...document.querySelectorAll('main *, .sheet *')].filter(node =>
    node.checkVisibility() && !node.closest('svg, .log, .heard, .scroll, thead')
    && getComputedStyle(node).overflowX !== 'visible' && node.scrollWidth > node.clientWidth + 1
).map(node => node.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, False), (390, True)])
def test_every_page_of_the_pictures_can_be_read_by_everybody(
    tmp_path: Path, width: int, dark: bool
) -> None:
    with serving() as site, driven(tmp_path) as tab:
        tab.look_like(width, 900, dark=dark)
        for name in SHOWN:
            tab.open(f"{site}/{name}")
            tab.until(SETTLED)
            assert findings(tab) == [], name
            assert tab.value(CLIPPED) == [], name
            assert tab.value("document.documentElement.scrollWidth - innerWidth") <= 0, name


PAGES = {
    "alice": ["/", "/?q=nothing-like-it", "/workspaces/api", "/workspaces/api/logs", "/nowhere"],
    "root": ["/", "/workspaces/search", "/admin", "/admin/plan", "/tokens", "/report"],
}


def assert_nothing_grave(somebody: Looking, *, known: str = "nothing") -> None:
    """About the page as it is, on screens of all kinds; `known` is meant to be as it is."""
    where = somebody.tab.address
    for width, dark in LOOKS:
        somebody.tab.look_like(width, 900, dark=dark)
        found = [each for each in somebody.findings() if not each.startswith(f"{known}:")]
        assert found == [], f"{where}, {width}, {dark}"
        wide = somebody.tab.value("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{where} is wider than {width}"
    assert somebody.tab.address == where, "all of it was that page"
    somebody.tab.look_like(1400, 900)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_grave_stands_in_anybodys_way(hub: Hub, tmp_path: Path, name: str) -> None:
    with looking(hub, tmp_path, name) as somebody:
        for path in PAGES[name]:
            somebody.open(path)
            assert_nothing_grave(somebody)
        somebody.open(PAGES[name][0])
        somebody.tab.value("document.querySelector('[data-part=help]')?.showModal()")
        assert somebody.findings() == []
        assert somebody.complaints == []


def test_nothing_grave_stands_in_the_way_of_whoever_waits(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.tab.open(f"http://slow.localhost:{hub.port}/")
        alice.says("slow")
        alice.tab.until("document.querySelector('progress')")
        # It goes on by itself, also where no script runs or the script is stuck.
        assert_nothing_grave(alice, known="meta-refresh")
        (hub.home("slow") / "ready").touch()
        alice.says("Notes")
        assert alice.complaints == []
    hub.until_settled(slow="RUNNING")


def test_a_new_token_works_and_is_shown_once(hub: Hub, tmp_path: Path) -> None:
    with looking(hub, tmp_path, "alice") as alice:
        alice.open("/tokens")
        alice.tab.click("#name")
        alice.tab.type("ci-plan")
        alice.tab.click("input[name=read]")
        alice.tab.press("Make the token")
        alice.says("it is not shown again")
        assert alice.findings() == []
        secret = alice.tab.value("document.querySelector('[data-part=secret]').innerText")
        asked = {"credentials": "omit", "headers": {"Authorization": f"Bearer {secret}"}}
        name = alice.tab.value(
            f"fetch('/api/v1/me', {json.dumps(asked)})"
            ".then(r => r.json()).then(me => me.name + ' ' + me.way)"
        )
        assert name == "alice token"
        alice.open("/tokens")
        alice.tab.click("details summary.button")
        alice.tab.until("document.querySelector('button.danger').checkVisibility()")
        alice.tab.click("button.danger")
        alice.says("The token ci-plan is revoked.")
        assert alice.complaints == []
