"""A start, step by step, in an order in which a crash between any two leaves something findable.

1. Look: already running for this operation is fine, for another one is refused; what a dead
   leader left behind is ended.
2. Under the lock: verify the volume, take a port, write the record.
3. Confirm that the hub still leads.
4. Under the lock: the record is still ours; spawn behind the gate, write the pid, open the gate.
5. Wait for the port.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from codehub.adapters.process import logs, spawn
from codehub.adapters.process.find import is_alive
from codehub.adapters.process.probe import free_port, wait_for_port
from codehub.adapters.process.records import Record
from codehub.adapters.process.stop import end
from codehub.adapters.process.surround import workspace_environment
from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from codehub.adapters.process.site import Site
    from codehub.model.runtime import StartRequest

LEFTOVER_GRACE: Final = 2.0
"""For children that outlived their leader; they had their notice when it died."""


async def start(
    site: Site,
    request: StartRequest,
    confirm: Callable[[], Awaitable[None]],
    *,
    machine: Mapping[str, str],
    now: datetime,
) -> None:
    """Start the workspace and return when its port answers."""
    seen, running = await site.act(_look, site, request)
    if running and await _answers(running):
        return
    # One that ran may have been a dead hub's, still behind the gate, and ended with it.
    await end(site, request.workspace_id, LEFTOVER_GRACE)
    record = await site.act(_reserve, site, request, seen, now)
    try:
        await confirm()
        running = await site.act(_launch, site, request, record, machine)
    except Exception:
        await site.act(site.withdraw, record)
        raise
    if not await _answers(running):
        raise await site.act(_failure, site, running, request)


async def _answers(record: Record) -> bool:
    return await wait_for_port(record.port, partial(is_alive, record.leader))


def _look(site: Site, request: StartRequest) -> tuple[Record | None, Record | None]:
    """The record as it is, and once more if its process runs for this very operation."""
    site.root.check()
    record = site.records.read(request.workspace_id)
    if record is None or site.look().leader(record) is None:
        return record, None
    if record.op_id != request.op_id:
        raise ActionFailed(
            f"{request.name} already runs from an earlier start", hint="stop it first"
        )
    return record, record


def _reserve(site: Site, request: StartRequest, seen: Record | None, now: datetime) -> Record:
    with site.root.locked():
        _require_unchanged(site, request, seen)
        site.volumes.require(request.volume)
        others = site.records.read_all().values()
        record = Record(
            workspace_id=request.workspace_id,
            op_id=request.op_id,
            token=token_hex(8),
            template_digest=request.template_digest,
            volume=request.volume.name,
            port=free_port({each.port for each in others if each}),
            started_at=now,
        )
        site.records.write(record)
        spawn.forget_exit(seen.leader if seen else None)
        return record


def _launch(
    site: Site, request: StartRequest, record: Record, machine: Mapping[str, str]
) -> Record:
    with site.root.locked():
        _require_unchanged(site, request, record)
        home = site.volumes.require(request.volume)
        env = workspace_environment(
            request, hub_id=site.root.hub_id, home=home, port=record.port, machine=machine
        )
        command = spawn.resolve_command(request.command, env, home)
        log = site.log(request.workspace_id)
        logs.rotate(log)
        with spawn.Gate(command, env, log) as gate:
            running = replace(record, leader=gate.leader)
            site.records.write(running)
            gate.open()
        return running


def _require_unchanged(site: Site, request: StartRequest, expected: Record | None) -> None:
    """Another hub process, or a stop, may have come in between: then this start is not ours.

    The token decides: a listing in between may have written down that the leader has ended.
    """
    current = site.records.read(request.workspace_id)
    if (current and current.token) != (expected and expected.token):
        raise ActionFailed(f"{request.name} was stopped or started by another meanwhile")


def _failure(site: Site, record: Record, request: StartRequest) -> ActionFailed:
    """Why it ended before its port answered; values of its environment may be secrets."""
    code = site.note_exit(record, site.look()).exit_code
    how = "the command ended" if code is None else f"the command ended with exit code {code}"
    said = logs.last_words(site.log(request.workspace_id), hide=request.env.values())
    return ActionFailed(
        f"{how} before its port answered" + (f": {said}" if said else " and said nothing"),
        hint=f"see 'codehub logs {request.name}'",
    )
