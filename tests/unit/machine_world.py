"""A small world for the state machine: rows and resources, acts that succeed, things that happen.

Acts change facts and nothing else, as actuators do; what the database holds changes through
`record` alone, apart from what a storage job hands over (keys and markers). Properties are
checked by letting `decide` drive this world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import strategies as st

from codehub.core.decide import decide
from codehub.core.judge import judge
from codehub.core.record import record, retire_home
from codehub.core.retry import retry
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import (
    Claim,
    Continue,
    Decision,
    Recover,
    RemoveStrays,
    Rules,
    Wait,
)
from codehub.model.states import (
    DesiredState,
    ErrorReason,
    IntentSource,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.model.workspace import (
    Activity,
    HomeContext,
    Intent,
    Override,
    Status,
    UpdatePolicy,
    Workspace,
)
from tests.make import NOW, workspace

RULES = Rules()
HOME = "ws-home-g1"
OLD_KEY = f"hub/ws/{UUID(int=70)}/1/home.tar.zst"
OP = UUID(int=77)
MINUTE = timedelta(minutes=1)


def archive_key(op_id: UUID | None) -> str:
    return f"hub/ws/{op_id}/1/home.tar.zst"


@dataclass(frozen=True)
class World:
    """One workspace and what is really there. `whole` are the volumes that are complete."""

    workspace: Workspace
    now: datetime = NOW
    container: ContainerFact = ContainerFact.ABSENT
    volumes: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    archives: frozenset[str] = frozenset()
    blind_engine: bool = False
    blind_store: bool = False

    @property
    def status(self) -> Status:
        return self.workspace.status

    def with_status(self, **fields: object) -> World:
        status = replace(self.status, **fields)  # type: ignore[arg-type]
        return replace(self, workspace=replace(self.workspace, status=status))

    def with_intent(self, **fields: object) -> World:
        intent = replace(self.workspace.intent, **fields)  # type: ignore[arg-type]
        return replace(self, workspace=replace(self.workspace, intent=intent))


def observe(world: World) -> Facts:
    """What a pass sees; a provider that cannot be asked says nothing at all."""
    home, key = world.status.home_store_key, world.status.archive_key
    running = world.container is ContainerFact.RUNNING
    stray = bool(world.volumes - {home})
    engine, store = not world.blind_engine, not world.blind_store
    return Facts(
        container=world.container if engine else ContainerFact.UNKNOWN,
        port_answered=running and engine,
        volume=_presence(home in world.volumes, engine),
        volume_complete=home in world.whole,
        archive=_presence(key in world.archives, store),
        strays=_presence(stray, engine),
    )


def _presence(there: bool, known: bool) -> Presence:
    if not known:
        return Presence.UNKNOWN
    return Presence.PRESENT if there else Presence.ABSENT


def tick(world: World, *, acts: bool = True, rules: Rules = RULES) -> tuple[World, Decision]:
    """One pass of the controller: observe, judge, decide, store, act. Without `acts`, it died."""
    facts, row = observe(world), world.workspace
    decision = decide(row, facts, world.now, rules)
    stored = record(row, judge(row, facts, world.now), decision, now=world.now, op_id=_op_id(world))
    after = replace(world, workspace=replace(row, status=stored))
    if isinstance(decision, Recover):
        after = after.with_intent(recover_requested=None)
    return (act(after, decision) if acts else after), decision


def fail(world: World, reason: ErrorReason, *, rules: Rules = RULES) -> World:
    """The act of the operation in flight raised."""
    row, facts = world.workspace, observe(world)
    if row.status.operation is Operation.NONE:
        return world
    decision = retry(row, reason, "it did not work", world.now, rules)
    stored = record(row, judge(row, facts, world.now), decision, now=world.now, op_id=_op_id(world))
    return replace(world, workspace=replace(row, status=stored))


def _op_id(world: World) -> UUID:
    """New at every claim: time moves between any two."""
    return UUID(int=int((world.now - NOW).total_seconds() * 1000) + 1000)


def act(world: World, decision: Decision) -> World:
    """What the act of a decision does to the world when it succeeds."""
    if isinstance(decision, RemoveStrays):
        return _remove_strays(world)
    if not isinstance(decision, Claim | Continue):
        return world
    home = world.status.home_store_key
    match decision.operation:
        case Operation.PROVISIONING:
            return _with_volume(world, home)
        case Operation.RESTORING:
            context = replace(world.status.home_ctx, restore_marker=world.status.archive_key)
            return _with_volume(world, home).with_status(home_ctx=context)
        case Operation.CREATE_EMPTY_ARCHIVE:
            return save_archive(world)
        case Operation.ARCHIVING:
            return _remove_strays(save_archive(world))
        case Operation.STARTING:
            return replace(world, container=ContainerFact.RUNNING)
        case Operation.STOPPING:
            return replace(world, container=ContainerFact.ABSENT)
        case Operation.DELETING:
            return _remove_strays(replace(world, container=ContainerFact.ABSENT))
    raise AssertionError(decision)


def save_archive(world: World) -> World:
    """The archive is committed, then its key saved and the volume retired in one transaction."""
    key = archive_key(world.status.op_id)
    kept = replace(world, archives=world.archives | {key})
    status = retire_home(replace(kept.status, archive_key=key))
    return replace(kept, workspace=replace(kept.workspace, status=status))


def _with_volume(world: World, name: str | None) -> World:
    assert name is not None
    return replace(world, volumes=world.volumes | {name}, whole=world.whole | {name})


def _remove_strays(world: World) -> World:
    kept = world.volumes & {world.status.home_store_key}
    return replace(world, volumes=kept, whole=world.whole & kept)


def run(world: World, *, ticks: int = 80) -> tuple[World, list[tuple[World, Decision]]]:
    """Let the controller work until it decides nothing; each decision with the world it saw."""
    seen: list[tuple[World, Decision]] = []
    for _ in range(ticks):
        before = world
        world, decision = tick(world)
        seen.append((before, decision))
        if is_idle(decision) and world.workspace == before.workspace:
            return world, seen
        world = replace(world, now=_later(world.now, decision))
    raise AssertionError(f"still busy: {seen[-5:]}")


def is_idle(decision: Decision) -> bool:
    return type(decision).__name__ == "Nothing"


def _later(now: datetime, decision: Decision) -> datetime:
    if isinstance(decision, Wait) and decision.until is not None:
        return max(decision.until, now + timedelta(seconds=1))
    return now + timedelta(seconds=1)


# Strategies

desired_states = st.sampled_from(DesiredState)
declared_states = st.sampled_from([s for s in DesiredState if s is not DesiredState.DELETED])
moments = st.sampled_from([None, NOW - 90 * MINUTE, NOW - 3 * MINUTE])
overrides = st.none() | st.builds(
    Override,
    state=declared_states,
    until=st.sampled_from([NOW - MINUTE, NOW + 60 * MINUTE]),
    reason=st.just("test"),
)
intents = st.builds(
    Intent,
    desired=desired_states,
    source=st.sampled_from(IntentSource),
    at=moments,
    override=overrides,
)
containers = st.sampled_from(ContainerFact)
known_containers = st.sampled_from([c for c in ContainerFact if c is not ContainerFact.UNKNOWN])
PRESENCES = (Presence.UNKNOWN, Presence.ABSENT, Presence.PRESENT)
"""What can be said of volumes; archives can be damaged as well."""
presences = st.sampled_from(PRESENCES)
facts = st.builds(
    Facts,
    container=containers,
    port_answered=st.booleans(),
    volume=presences,
    volume_complete=st.booleans(),
    archive=st.sampled_from(Presence),
    strays=presences,
)
recoveries = st.sampled_from([None, *(mode.value for mode in RecoverMode), "discard-data"])


@st.composite
def workspaces(draw: st.DrawFn) -> Workspace:
    """Any row whatever, with or without sense; ERROR comes without an operation, as it must."""
    operation = draw(st.sampled_from(Operation))
    at_rest = operation is Operation.NONE
    phases = [p for p in Phase if at_rest or p is not Phase.ERROR]
    key = draw(st.sampled_from([None, OLD_KEY, archive_key(OP)]))
    reasons = [ErrorReason.ACTION_FAILED, ErrorReason.UNREACHABLE]
    status = Status(
        phase=draw(st.sampled_from(phases)),
        phase_changed_at=draw(moments),
        operation=operation,
        op_started_at=None if at_rest else draw(moments),
        op_id=OP,
        archive_key=key,
        home_store_key=draw(st.sampled_from([None, HOME])),
        home_generation=draw(st.integers(0, 3)),
        home_ctx=HomeContext(restore_marker=draw(st.sampled_from([None, key]))),
        container_template=draw(st.sampled_from([None, "t0", "t1"])),
        error_reason=draw(st.none() | st.sampled_from(list(ErrorReason) if at_rest else reasons)),
        error_count=draw(st.integers(0, 4)),
        retry_at=draw(st.sampled_from([None, NOW - MINUTE, NOW + MINUTE])),
        deleted_at=draw(st.sampled_from([None, None, None, NOW - MINUTE])) if at_rest else None,
    )
    intent = replace(draw(intents), recover_requested=draw(recoveries))
    return _declared(draw, intent, status)


def _declared(draw: st.DrawFn, intent: Intent, status: Status) -> Workspace:
    row = workspace(
        intent=intent,
        status=status,
        activity=Activity(draw(moments)),
        declared_state=draw(declared_states),
        update=draw(st.sampled_from(UpdatePolicy)),
        pinned=draw(st.booleans()),
        suspend=draw(st.booleans()),
    )
    return replace(row, declared_at=draw(moments))


@st.composite
def sound_worlds(draw: st.DrawFn, *, suspend: bool = False) -> World:
    """A world with no broken invariant: at rest anywhere, or in the middle of any operation.

    The stored phase is drawn freely: it is a cache, and nothing may rest on it.
    """
    world = draw(st.sampled_from(RESTING))
    operation = draw(st.sampled_from(FROM[world.status.phase]))
    world = _in_the_middle(world, operation, half=draw(st.booleans()))
    status = replace(
        world.status,
        phase=draw(st.sampled_from([p for p in Phase if p is not Phase.ERROR])),
        phase_changed_at=draw(moments),
        container_template=draw(st.sampled_from([None, "t0", "t1"])),
        error_count=draw(st.integers(0, RULES.retries - 1)),
    )
    row = _declared(draw, draw(intents), status)
    declaration = replace(row.declaration, suspend=suspend)
    return replace(world, workspace=replace(row, declaration=declaration))


@st.composite
def broken_worlds(draw: st.DrawFn) -> World:
    """A sound world from which somebody took or added something, or that failed before."""
    world = draw(sound_worlds())
    harm = draw(st.sampled_from(["volumes", "archives", "container", "error"]))
    if harm == "volumes":
        return replace(world, volumes=frozenset(), whole=frozenset())
    if harm == "archives":
        return replace(world, archives=frozenset())
    if harm == "container":
        return replace(world, container=ContainerFact.EXITED)
    reason = draw(st.sampled_from(list(ErrorReason)))
    return fail(world, reason)


def _resting() -> list[World]:
    row = workspace()
    pending = World(row)
    archived = replace(pending, archives=frozenset({OLD_KEY})).with_status(
        phase=Phase.ARCHIVED, archive_key=OLD_KEY
    )
    found = [pending, archived]
    for before in (pending, archived):
        standby = _with_volume(before, HOME).with_status(
            phase=Phase.STANDBY, home_store_key=HOME, home_generation=1
        )
        exited = replace(standby, container=ContainerFact.EXITED)
        running = replace(standby, container=ContainerFact.RUNNING)
        found += [standby, exited, running.with_status(phase=Phase.RUNNING)]
    return found


RESTING = _resting()
"""Every way to be at rest without a broken invariant."""

FROM = {
    Phase.PENDING: [
        Operation.NONE,
        Operation.PROVISIONING,
        Operation.CREATE_EMPTY_ARCHIVE,
        Operation.DELETING,
    ],
    Phase.ARCHIVED: [Operation.NONE, Operation.RESTORING, Operation.DELETING],
    Phase.STANDBY: [Operation.NONE, Operation.STARTING, Operation.STOPPING, Operation.ARCHIVING],
    Phase.RUNNING: [Operation.NONE, Operation.STARTING, Operation.STOPPING],
}
"""The operations that may be in flight where a phase is, or just was."""


def _in_the_middle(world: World, operation: Operation, *, half: bool) -> World:
    """The world after the claim of an operation, `half`: with a part of its act done."""
    if operation is Operation.NONE:
        return world
    world = world.with_status(operation=operation, op_started_at=NOW, op_id=OP)
    if operation in (Operation.PROVISIONING, Operation.RESTORING):
        world = world.with_status(home_store_key="ws-home-g2", home_generation=2)
        volumes = world.volumes | ({"ws-home-g2"} if half else set())
        return replace(world, volumes=volumes)
    if operation is Operation.ARCHIVING:
        alone = replace(world, container=ContainerFact.ABSENT)
        return save_archive(alone) if half else alone
    return world
