"""What every runtime promises, as tests: `codehub.ports.Runtime` in words that can fail.

A module for one implementation imports everything from here and provides the fixture `world`: the
implementation in real surroundings, and hands that reach into them behind its back.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from codehub.errors import ActionFailed, FenceLost, NameConflict, Unreachable, VolumeInUse
from codehub.model.runtime import VolumeRef
from tests.contract.runtime_world import (
    LONG,
    SHORT,
    answers,
    eventually,
    is_running,
    leads,
    new_volume,
    request_for,
    seen,
    started,
    text_of,
    volume_names,
)

if TYPE_CHECKING:
    from codehub.ports import Runtime
    from tests.contract.runtime_world import World

pytestmark = pytest.mark.anyio


# ---- Volumes ----


async def test_a_new_hub_has_nothing(world: World) -> None:
    listing = await world.open().list()

    assert listing.containers == ()
    assert listing.volumes == ()


async def test_a_created_volume_is_listed_with_its_workspace_and_generation(world: World) -> None:
    runtime, ref = world.open(), VolumeRef(uuid4(), 3)

    await runtime.create_volume(ref)

    (volume,) = (await runtime.list()).volumes
    assert (volume.workspace_id, volume.name, volume.generation) == (ref.workspace_id, ref.name, 3)


async def test_creating_a_volume_again_keeps_what_is_in_it(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    await world.write(ref, "kept.txt", "data")

    await runtime.create_volume(ref)

    assert await world.read(ref, "kept.txt") == "data"
    assert await volume_names(runtime) == {ref.name}


async def test_a_foreign_namesake_is_a_conflict_and_stays_untouched(world: World) -> None:
    runtime, ref = world.open(), VolumeRef(uuid4(), 1)
    await world.foreign_volume(ref)

    with pytest.raises(NameConflict):
        await runtime.create_volume(ref)
    with pytest.raises(NameConflict):
        await runtime.delete_volume(ref)
    with pytest.raises(NameConflict):
        await runtime.start(request_for(world, ref, f"exec {world.serve}"), leads)

    assert await world.foreign_is_intact(ref)
    assert await volume_names(runtime) == set()
    assert not await is_running(runtime, ref.workspace_id)


async def test_a_deleted_volume_is_gone_and_deleting_it_again_is_fine(world: World) -> None:
    runtime = world.open()
    ref, other = await new_volume(runtime), await new_volume(runtime)
    await world.write(ref, "a.txt", "data")

    await runtime.delete_volume(ref)
    await runtime.delete_volume(ref)

    assert await volume_names(runtime) == {other.name}
    assert await world.read(ref, "a.txt") is None


async def test_a_used_volume_is_not_deleted_even_when_its_user_has_ended(world: World) -> None:
    runtime, request = await started(world)

    with pytest.raises(VolumeInUse):
        await runtime.delete_volume(request.volume)
    await world.kill(request.workspace_id)
    with pytest.raises(VolumeInUse):
        await runtime.delete_volume(request.volume)
    assert await volume_names(runtime) == {request.volume.name}

    await runtime.stop(request.workspace_id, LONG)
    await runtime.delete_volume(request.volume)
    assert await volume_names(runtime) == set()


async def test_a_volume_is_unused_when_nobody_has_it_not_even_one_that_has_ended(
    world: World,
) -> None:
    runtime, request = await started(world)
    other = replace(request.volume, generation=2)
    await runtime.create_volume(other)

    await runtime.require_unused(other)
    with pytest.raises(VolumeInUse):
        await runtime.require_unused(request.volume)
    await world.kill(request.workspace_id)
    with pytest.raises(VolumeInUse):
        await runtime.require_unused(request.volume)
    await runtime.stop(request.workspace_id, LONG)
    await runtime.require_unused(request.volume)
    async with world.another_hub():
        with pytest.raises(Unreachable):
            await runtime.require_unused(request.volume)


async def test_another_generation_than_the_used_one_can_be_deleted(world: World) -> None:
    runtime, request = await started(world)
    retired = replace(request.volume, generation=2)
    await runtime.create_volume(retired)

    await runtime.delete_volume(retired)

    assert await volume_names(runtime) == {request.volume.name}
    assert await answers(await runtime.upstream(request.workspace_id))


async def test_a_volume_path_leads_to_the_files_where_there_is_one(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    await world.write(ref, "a.txt", "data")

    path = await runtime.volume_path(ref)

    assert path is None or (path / "a.txt").read_text() == "data"
    assert await runtime.volume_path(VolumeRef(uuid4(), 1)) is None


async def test_a_volume_that_is_not_there_cannot_be_held_for_copying(world: World) -> None:
    runtime = world.open()

    with pytest.raises(ActionFailed):
        await runtime.open_copy(VolumeRef(uuid4(), 1))

    assert await volume_names(runtime) == set()


async def test_a_copy_that_was_never_closed_is_nobodys_and_blocks_nothing(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    await _leave_a_copy(runtime, ref)

    assert await seen(runtime, ref.workspace_id) is None
    await runtime.start(request_for(world, ref, f"exec {world.serve}"), leads)
    await runtime.stop(ref.workspace_id, LONG)
    await _leave_a_copy(runtime, ref)
    await runtime.require_unused(ref)
    await _leave_a_copy(runtime, ref)
    await runtime.delete_volume(ref)

    assert await volume_names(runtime) == set()


async def _leave_a_copy(runtime: Runtime, ref: VolumeRef) -> None:
    """As a job's leader does that dies; a runtime all of whose volumes have paths makes none."""
    with suppress(ActionFailed):
        await runtime.open_copy(ref)


# ---- Start ----


async def test_a_started_workspace_answers_and_is_listed_with_its_labels(world: World) -> None:
    runtime, request = await started(world)

    assert await answers(await runtime.upstream(request.workspace_id))
    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert container.running
    assert container.op_id == request.op_id
    assert container.template_digest == request.template_digest
    assert container.volume == request.volume.name
    assert container.exit_code is None
    assert container.started_at is not None


async def test_it_sees_its_home_its_port_and_what_the_spec_gives_it(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    names = ("PORT", "CODEHUB_BASE_PATH", "CODEHUB_WORKSPACE", "GREETING")
    lines = "\n".join(f'printf "%s\\n" "${name}" >> "$HOME/seen"' for name in names)
    script = f"{lines}\ncat > $HOME/input\nexec {world.serve}"

    await runtime.start(
        request_for(world, ref, script, env={"GREETING": "grüß 'dich' $HOME"}), leads
    )

    port, *rest = (await world.read(ref, "seen") or "").splitlines()
    assert port.isdigit()
    assert rest == ["/w/payments-api/", "payments-api", "grüß 'dich' $HOME"]
    assert await world.read(ref, "input") == "", "its input is empty and at its end"


async def test_no_workspace_starts_without_its_volume_and_none_is_made_for_it(world: World) -> None:
    runtime, ref = world.open(), VolumeRef(uuid4(), 1)

    with pytest.raises(ActionFailed):
        await runtime.start(request_for(world, ref, f"exec {world.serve}"), leads)

    assert await volume_names(runtime) == set()
    assert not await is_running(runtime, ref.workspace_id)


async def test_leadership_is_confirmed_before_anything_runs(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    asked = []

    async def confirm() -> None:
        asked.append(await is_running(runtime, ref.workspace_id))

    await runtime.start(request_for(world, ref, f"exec {world.serve}"), confirm)

    assert asked == [False]


async def test_whoever_no_longer_leads_starts_nothing(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)

    async def lost() -> None:
        raise FenceLost("another leader has taken over")

    with pytest.raises(FenceLost):
        await runtime.start(request_for(world, ref, f"touch $HOME/ran; exec {world.serve}"), lost)

    assert not await is_running(runtime, ref.workspace_id)
    await runtime.stop(ref.workspace_id, LONG)
    assert (await runtime.list()).containers == ()
    assert await world.read(ref, "ran") is None


async def test_starting_again_for_the_same_operation_starts_nothing_new(world: World) -> None:
    runtime, request = await started(world, f"echo start >> $HOME/starts; exec {world.serve}")
    before = await runtime.upstream(request.workspace_id)

    await world.open().start(request, leads)

    assert await runtime.upstream(request.workspace_id) == before
    assert await world.read(request.volume, "starts") == "start\n"


async def test_a_start_that_was_given_up_goes_on_with_the_next_one(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    script = f"until [ -e $HOME/go ]; do sleep 0.05; done; exec {world.serve}"
    request = request_for(world, ref, script)
    first = asyncio.create_task(runtime.start(request, leads))
    await eventually(lambda: is_running(runtime, ref.workspace_id), "it runs")
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first

    assert await is_running(runtime, ref.workspace_id)
    await world.write(ref, "go", "")
    await world.open().start(request, leads)

    assert await answers(await runtime.upstream(ref.workspace_id))


async def test_another_operation_does_not_start_beside_a_running_workspace(world: World) -> None:
    runtime, request = await started(world)

    with pytest.raises(ActionFailed):
        await runtime.start(replace(request, op_id=uuid4()), leads)

    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert container.running
    assert container.op_id == request.op_id


async def test_of_two_hubs_that_start_it_at_once_one_wins(world: World) -> None:
    """So a dead leader's late start is no second container on the same volume."""
    runtime, other = world.open(), world.open()
    ref = await new_volume(runtime)
    script = f"echo start >> $HOME/starts; exec {world.serve}"
    winner = request_for(world, ref, script)

    async def overtaken() -> None:
        await other.start(winner, leads)

    with pytest.raises(ActionFailed):
        await runtime.start(request_for(world, ref, script), overtaken)

    container = await seen(runtime, ref.workspace_id)
    assert container is not None
    assert container.op_id == winner.op_id
    assert await answers(await runtime.upstream(ref.workspace_id))
    assert await world.read(ref, "starts") == "start\n"


async def test_one_that_has_ended_is_replaced(world: World) -> None:
    runtime, request = await started(world)
    await world.kill(request.workspace_id)
    again = replace(request, op_id=uuid4())

    await runtime.start(again, leads)

    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert container.running
    assert container.op_id == again.op_id
    assert await answers(await runtime.upstream(request.workspace_id))


async def test_a_command_that_ends_fails_with_its_code_and_last_words(world: World) -> None:
    runtime = world.open()
    ref = await new_volume(runtime)
    script = "echo no such database; echo the password is $SECRET; exit 3"
    request = request_for(world, ref, script, env={"SECRET": "canary-7f3a"})

    with pytest.raises(ActionFailed) as failure:
        await runtime.start(request, leads)

    assert "3" in failure.value.message
    assert "no such database" in failure.value.message
    assert "canary-7f3a" not in failure.value.message
    container = await seen(runtime, ref.workspace_id)
    assert container is not None
    assert (container.running, container.exit_code) == (False, 3)
    assert await runtime.upstream(ref.workspace_id) is None


async def test_a_command_that_does_not_exist_is_named(world: World) -> None:
    runtime = world.open()
    request = replace(
        request_for(world, await new_volume(runtime), ""), command=("no-such-editor", "--x")
    )

    with pytest.raises(ActionFailed, match="no-such-editor"):
        await runtime.start(request, leads)

    assert not await is_running(runtime, request.workspace_id)


async def test_two_workspaces_run_side_by_side(world: World) -> None:
    runtime, one = await started(world)
    two = request_for(world, await new_volume(runtime), f"exec {world.serve}")
    await runtime.start(two, leads)

    first, second = (
        await runtime.upstream(one.workspace_id),
        await runtime.upstream(two.workspace_id),
    )
    assert first != second
    await runtime.stop(one.workspace_id, LONG)

    assert not await answers(first)
    assert await answers(second)
    assert [each.workspace_id for each in (await runtime.list()).containers] == [two.workspace_id]


# ---- Stop ----


async def test_a_stopped_workspace_is_gone_and_its_home_stays(world: World) -> None:
    script = f"trap 'echo bye > $HOME/goodbye; exit 0' TERM; {world.serve} & wait"
    runtime, request = await started(world, script)
    upstream = await runtime.upstream(request.workspace_id)

    await runtime.stop(request.workspace_id, LONG)

    assert (await runtime.list()).containers == ()
    assert await runtime.upstream(request.workspace_id) is None
    assert not await answers(upstream)
    assert await world.read(request.volume, "goodbye") == "bye\n", "it had its time to end"
    assert await volume_names(runtime) == {request.volume.name}


async def test_what_ignores_sigterm_is_killed_after_the_grace(world: World) -> None:
    script = f"trap '' TERM; {world.serve} & while :; do sleep 1; done"
    runtime, request = await started(world, script)

    await runtime.stop(request.workspace_id, SHORT)

    assert (await runtime.list()).containers == ()


async def test_children_that_went_their_own_way_are_stopped_too(world: World) -> None:
    stray = "setsid sh -c 'trap \"\" TERM HUP; while :; do date > $HOME/alive; sleep 0.05; done'"
    runtime, request = await started(world, f"{stray} & exec {world.serve}")
    await eventually(lambda: world.read(request.volume, "alive"), "the child writes")

    await runtime.stop(request.workspace_id, SHORT)
    await world.write(request.volume, "alive", "nobody")

    await runtime.delete_volume(request.volume)
    assert await volume_names(runtime) == set()
    assert (await runtime.list()).containers == ()


async def test_stopping_what_is_not_there_is_fine(world: World) -> None:
    runtime, request = await started(world)

    await runtime.stop(uuid4(), LONG)
    await runtime.stop(request.workspace_id, LONG)
    await runtime.stop(request.workspace_id, LONG)

    assert (await runtime.list()).containers == ()


async def test_one_killed_by_hand_is_listed_as_ended_until_it_is_stopped(world: World) -> None:
    runtime, request = await started(world)

    await world.kill(request.workspace_id)

    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert (container.running, container.exit_code) == (False, 137)
    assert container.op_id == request.op_id
    await runtime.stop(request.workspace_id, LONG)
    assert (await runtime.list()).containers == ()


async def test_what_was_written_is_there_after_the_next_start(world: World) -> None:
    runtime, request = await started(world, f"echo work >> $HOME/work; exec {world.serve}")
    await runtime.stop(request.workspace_id, LONG)

    await runtime.start(replace(request, op_id=uuid4()), leads)

    assert await world.read(request.volume, "work") == "work\nwork\n"


# ---- Hubs come and go ----


async def test_workspaces_outlive_the_hub_and_the_next_one_finds_them(world: World) -> None:
    runtime, request = await started(world)
    upstream = await runtime.upstream(request.workspace_id)
    await runtime.close()

    successor = world.open()

    assert await successor.list() == await runtime.list()
    assert await successor.upstream(request.workspace_id) == upstream
    assert await answers(upstream)
    await successor.stop(request.workspace_id, LONG)
    assert (await runtime.list()).containers == ()


async def test_surroundings_of_another_hub_are_unreachable_and_never_empty(world: World) -> None:
    runtime, request = await started(world)

    async with world.another_hub():
        with pytest.raises(Unreachable):
            await runtime.list()
        with pytest.raises(Unreachable):
            await world.open().list()

    assert await is_running(runtime, request.workspace_id)


# ---- Logs, stats, events ----


async def test_logs_give_the_last_lines_of_both_outputs(world: World) -> None:
    script = f"echo one; echo two >&2; echo three; exec {world.serve} >/dev/null 2>&1"
    runtime, request = await started(world, script)

    text = await text_of(runtime.logs(request.workspace_id, lines=1000, follow=False))

    # Between the two outputs an engine may lose the order.
    assert [line for line in text.splitlines() if line != "two"] == ["one", "three"]
    assert "two\n" in text
    last = await text_of(runtime.logs(request.workspace_id, lines=1, follow=False))
    assert last == text.splitlines(keepends=True)[-1]
    assert await text_of(runtime.logs(uuid4(), lines=10, follow=False)) == ""


async def test_followed_logs_go_on_until_the_workspace_ends(world: World) -> None:
    script = f"{world.serve} & until [ -e $HOME/say ]; do sleep 0.05; done; echo news; wait"
    runtime, request = await started(world, script)
    text = ""

    async with aclosing(runtime.logs(request.workspace_id, lines=10, follow=True)) as chunks:  # type: ignore[type-var]
        await world.write(request.volume, "say", "")
        async for chunk in chunks:
            text += chunk.decode()
            if "news\n" in text:
                await runtime.stop(request.workspace_id, LONG)

    assert text.count("news\n") == 1


async def test_stats_count_the_work_of_all_that_belongs_to_it(world: World) -> None:
    runtime, request = await started(world, f"(while :; do :; done) & exec {world.serve}")
    first = await runtime.stats(request.workspace_id)
    assert first is not None
    assert first.memory_bytes > 0

    async def worked() -> bool:
        now = await runtime.stats(request.workspace_id)
        return now is not None and now.cpu_seconds > first.cpu_seconds + 0.1 and now.at > first.at

    await eventually(worked, "the loop's CPU time is counted")
    await runtime.stop(request.workspace_id, LONG)
    assert await runtime.stats(request.workspace_id) is None


async def test_changes_give_hints(world: World) -> None:
    runtime, request = await started(world)
    hints: list[UUID] = []

    async def listen() -> None:
        async for workspace_id in runtime.events():
            hints.append(workspace_id)

    async def hinted() -> bool:
        # Hints may be lost, for one that is not listening yet in any case: so change it again.
        await runtime.stop(request.workspace_id, LONG)
        await runtime.start(replace(request, op_id=uuid4()), leads)
        return bool(hints)

    listener = asyncio.create_task(listen())
    try:
        await eventually(hinted, "a hint")
    finally:
        listener.cancel()
    assert set(hints) == {request.workspace_id}
