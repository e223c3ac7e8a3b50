"""Coming back to a workspace as a person does it: a real browser, a real proxy, real clicks."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, StartOn, Status
from codehub.service.links import create_login_link
from tests.auth.people import PASSWORD
from tests.browser.pages_world import fill_in, pages_world
from tests.integration.stored import live
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.model.workspace import Workspace
    from tests.browser.driven import Tab
    from tests.browser.pages_world import PagesWorld

pytestmark = pytest.mark.anyio

THERE = "document.body.innerText.includes('This is the workspace')"


@pytest.fixture
async def world(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[PagesWorld]:
    async with pages_world(database_url, redis_url, tmp_path) as found:
        yield found


def at(phase: Phase, name: str = "api", number: int = 1, **status: Any) -> Workspace:
    lowered = phase if phase in (Phase.RUNNING, Phase.ARCHIVED) else Phase.STANDBY
    intent = Intent(DesiredState(lowered.value), IntentSource.TTL)
    return workspace(name, number=number, intent=intent, status=Status(phase, **status))


def says(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


async def starting(world: PagesWorld, **progress: Any) -> None:
    operation = "RESTORING" if progress else "STARTING"
    await world.change(
        "api",
        operation=operation,
        op_id=UUID(int=9),
        op_started_at=NOW,
        op_progress=json.dumps(progress),
    )


async def test_from_a_workspaces_own_address_through_the_login_and_the_wake_into_it(
    world: PagesWorld,
) -> None:
    await world.add(at(Phase.STANDBY))

    def come(tab: Tab) -> None:
        tab.open(world.url("/lab?file=a", host="api.localhost"))
        tab.until(says("Log in"))
        assert tab.address.startswith(world.url("/login?next="))
        fill_in(tab, "wrong")
        tab.until(says("Name or password is wrong."))
        tab.until("document.activeElement.name === 'password'")
        tab.type(PASSWORD)
        tab.key("Enter")
        tab.until(says("Waking api"))

    await world.do(come)
    assert await world.desired() == "RUNNING"
    await world.runs()

    def arrive(tab: Tab) -> None:
        tab.until(THERE)
        assert tab.address == world.url("/lab?file=a", host="api.localhost")
        assert tab.complaints == []

    await world.do(arrive)


async def test_a_first_visit_while_it_is_prepared_ends_in_the_workspace_by_itself(
    world: PagesWorld,
) -> None:
    """With `startOn: visit` nobody else asks for it to run."""
    await world.add(
        workspace(
            "api",
            start_on=StartOn.VISIT,
            intent=Intent(DesiredState.STANDBY, IntentSource.SPEC),
            status=Status(
                Phase.PENDING,
                operation=Operation.PROVISIONING,
                op_id=UUID(int=9),
                op_started_at=NOW,
            ),
        )
    )
    await world.logs_in()

    def come(tab: Tab) -> None:
        tab.open(world.url("/w/api/"))
        tab.until(says("Preparing api"))
        assert tab.value(says("then it starts and opens here"))

    await world.do(come)
    assert await world.desired() == "RUNNING"
    await world.change("api", phase="STANDBY", operation="NONE", op_id=None, op_started_at=None)
    await world.do(lambda tab: tab.until(says("api is about to start")))
    await starting(world)
    await world.do(lambda tab: tab.until(says("Starting api")))
    await world.runs()
    await world.do(lambda tab: tab.until(THERE))
    assert await world.do(lambda tab: tab.complaints) == []


async def test_the_page_follows_the_restore_and_goes_on_by_itself(world: PagesWorld) -> None:
    await world.add(at(Phase.ARCHIVED))
    await world.logs_in()
    await world.change("api", desired_state="RUNNING")
    await starting(world, stage="unpacking", bytes=1, total=4)

    def look(tab: Tab) -> None:
        tab.open(world.url("/w/api/"))
        tab.until("document.querySelector('progress').value === 25")
        tab.value("window.same = true")

    await world.do(look)
    await starting(world, stage="unpacking", bytes=3, total=4)

    def see(tab: Tab) -> None:
        tab.until("document.querySelector('progress').value === 75")
        assert tab.value("document.querySelector('[data-part=percent]').innerText") == "75%"
        assert tab.value("document.querySelector('[data-part=heard]').innerText").endswith("70%")
        assert tab.value("window.same"), "the page was loaded again in between"

    await world.do(see)
    await world.change("api", phase="STANDBY", op_progress="{}", operation="STARTING")
    await world.do(lambda tab: tab.until("document.title === 'Starting api'"))
    assert await world.do(lambda tab: tab.value("document.querySelector('progress').hidden"))
    await world.runs()
    await world.do(lambda tab: tab.until(THERE))
    assert await world.do(lambda tab: tab.complaints) == []


async def test_a_start_that_fails_shows_why_and_a_button_that_helps(world: PagesWorld) -> None:
    await world.add(at(Phase.STANDBY))
    await world.logs_in()
    await world.do(lambda tab: tab.open(world.url("/w/api/")))
    await world.becomes("api", "RUNNING")
    await world.change(
        "api",
        phase="ERROR",
        error_reason=ErrorReason.RETRY_EXCEEDED.value,
        error_message="it ended with code 1",
    )

    def recover(tab: Tab) -> None:
        tab.until(says("it ended with code 1"))
        tab.press("Try again")
        tab.until(says("Recovery was asked for"))

    await world.do(recover)
    assert (await live(world.conn, "api")).intent.recover_requested == "plain"
    await world.change("api", phase="STANDBY", error_reason=None, recover_requested=None)
    await world.runs()
    await world.do(lambda tab: tab.until(THERE))
    assert await world.do(lambda tab: tab.complaints) == []


async def test_an_archived_one_is_restored_by_a_click(world: PagesWorld) -> None:
    await world.add(at(Phase.ARCHIVED))
    await world.logs_in()

    def restore(tab: Tab) -> None:
        tab.open(world.url("/w/api/"))
        tab.until(says("api is archived"))
        tab.press("Restore api")
        tab.until(says("api is about to start"))

    await world.do(restore)
    assert await world.desired() == "RUNNING"
    assert await world.do(lambda tab: tab.complaints) == []


async def test_making_room_is_one_click(world: PagesWorld) -> None:
    running = [at(Phase.RUNNING, f"w{number}", number) for number in (1, 2)]
    await world.add(*running, at(Phase.STANDBY, "api", 3))
    await world.logs_in()

    def stop(tab: Tab) -> None:
        tab.open(world.url("/w/api/"))
        tab.until(says("api cannot start yet"))
        tab.press("Stop w1")

    await world.do(stop)
    await world.becomes("w1", "STANDBY")
    await world.change("w1", phase="STANDBY")
    await world.do(lambda tab: tab.until(says("Waking api")))
    assert await world.desired() == "RUNNING", "the click counts as a visit"
    assert await world.do(lambda tab: tab.complaints) == []


async def test_on_its_own_host_the_hub_is_where_room_is_made(world: PagesWorld) -> None:
    running = [at(Phase.RUNNING, f"w{number}", number) for number in (1, 2)]
    await world.add(*running, at(Phase.STANDBY, "api", 3))
    await world.logs_in()

    def stop(tab: Tab) -> None:
        tab.open(world.url("/", host="api.localhost"))
        tab.press("Choose one to stop")
        tab.until("location.pathname === '/_codehub/limit/api'")
        tab.press("Stop w2")

    await world.do(stop)
    await world.becomes("w2", "STANDBY")
    await world.change("w2", phase="STANDBY")
    await world.do(lambda tab: tab.until(says("Waking api")))
    assert await world.do(lambda tab: tab.address) == world.url("/", host="api.localhost")
    assert await world.do(lambda tab: tab.complaints) == []


async def test_a_tab_that_reloads_itself_wakes_nothing_and_says_so(world: PagesWorld) -> None:
    await world.add(at(Phase.RUNNING))
    await world.runs()
    await world.logs_in()

    def open_it(tab: Tab) -> None:
        tab.open(world.url("/w/api/"))
        tab.until(THERE)

    await world.do(open_it)
    await world.sleeps()

    def reload(tab: Tab) -> None:
        """Until the proxy has heard of it: a moment ago it was there."""
        while not tab.value(says("api is asleep")):
            tab.value("window.old = true; location.reload()")
            tab.until("!window.old && document.readyState === 'complete'")

    async with asyncio.timeout(60):
        await world.do(reload)
    assert await world.desired() == "STANDBY"
    await world.do(lambda tab: tab.press("Start api"))
    await world.becomes("api", "RUNNING")


async def test_a_workspaces_page_may_hide_where_it_is_and_still_send_its_forms(
    world: PagesWorld,
) -> None:
    await world.add(at(Phase.RUNNING))
    await world.runs()
    await world.logs_in()

    def send(tab: Tab) -> None:
        tab.open(world.url("/w/api/hidden"))
        tab.press("Send it")
        tab.until(says("It was sent"))
        assert tab.complaints == []

    await world.do(send)


async def test_without_scripts_everything_works_too(world: PagesWorld) -> None:
    await world.add(at(Phase.STANDBY))
    await world.do(lambda tab: tab.ask("Emulation.setScriptExecutionDisabled", value=True))
    await world.logs_in()
    await world.do(lambda tab: tab.open(world.url("/w/api/")))
    await world.becomes("api", "RUNNING")
    await starting(world)
    await world.do(lambda tab: tab.until(says("Starting api")))
    await world.runs()
    await world.do(lambda tab: tab.until(THERE))


async def test_logging_out_leaves_nothing_open(world: PagesWorld) -> None:
    await world.add(at(Phase.STANDBY))
    await world.logs_in()

    def leave(tab: Tab) -> None:
        tab.open(world.url("/logout"))
        tab.press("Log out")
        tab.until(says("You are logged out."))
        tab.open(world.url("/w/api/"))
        tab.until(says("Log in"))
        assert tab.complaints == []

    await world.do(leave)
    assert await world.desired() == "STANDBY"


async def test_a_link_opens_the_hub_with_one_key(world: PagesWorld) -> None:
    await world.add(at(Phase.STANDBY))
    code = await create_login_link(world.conn, "alice")

    def use(tab: Tab) -> None:
        tab.open(world.url(f"/login/link?code={code}&next=/logout"))
        tab.until("document.activeElement.textContent === 'Continue'")
        tab.key("Enter")
        tab.until(says("Logged in as alice"))
        assert tab.complaints == []

    await world.do(use)
