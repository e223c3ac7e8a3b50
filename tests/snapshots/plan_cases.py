"""Plans to render: one that shows everything a plan can say, and the small ones beside it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from codehub.core.plan import make_plan
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.people import Hub, Role, Webhook
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState, Origin, Revision
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import (
    Activity,
    Intent,
    Override,
    Resources,
    Runtime,
    Source,
    StartOn,
    Status,
    Ttl,
    UpdatePolicy,
)
from tests.make import NOW, declaration, spec_set, user, workspace

if TYPE_CHECKING:
    from codehub.model.plan import Plan

RUNNING, STANDBY, ARCHIVED = DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED

HUB_ID = "7d3f9a52-0000-4000-8000-000000000001"
REVISION = Revision(7, "d0", Origin("specs"), NOW - timedelta(days=1), "alice")
INTERACTIVE = Ttl(standby=3 * 3600, archive=24 * 3600, policy="interactive")

CANARY = "sesame-4711"
"""Planted wherever a secret may stand; no rendering may hold it."""


def ago(**span: float) -> Any:
    return NOW - timedelta(**span)


def running(**since: float) -> Status:
    return Status(
        phase=Phase.RUNNING,
        phase_changed_at=ago(days=1),
        container_template="t1",
        home_store_key="v",
        observed_generation=1,
        observed_at=NOW,
        **since,  # type: ignore[arg-type]
    )


def asleep(phase: Phase = Phase.STANDBY, **fields: Any) -> Status:
    fields.setdefault("phase_changed_at", ago(hours=1))
    return Status(phase=phase, home_store_key="v", observed_at=NOW, **fields)


def hub(*workspaces: Any, **fields: Any) -> HubState:
    fields.setdefault("users", {"alice": user("alice"), "bob": user("bob")})
    return HubState(hub_id=HUB_ID, revision=REVISION, workspaces=workspaces, **fields)


def docker(name: str, file: str, line: int, **fields: Any) -> dict[str, Any]:
    fields.setdefault("image", "codercom/code-server:4.107.1")
    fields.setdefault("ttl", INTERACTIVE)
    return {
        "name": name,
        "runtime": Runtime.DOCKER,
        "command": (),
        "source": Source(file, line),
        **fields,
    }


def sample() -> Plan:
    """The plan of the design: one updated and held, one created, one deleted."""
    payments = docker("payments-api", "specs/payments.yaml", 3)
    old = docker("old-poc", "specs/old.yaml", 1, owner="bob")
    held = Intent(STANDBY, IntentSource.TTL, ago(hours=1, minutes=12))
    stored = hub(
        workspace(
            number=1,
            intent=held,
            status=asleep(),
            activity=Activity(ago(hours=4, minutes=12), "input"),
            **{**payments, "image": "code-server:4.106"},
        ),
        workspace(number=2, desired=STANDBY, status=asleep(), **old),
    )
    incoming = spec_set(
        declaration(**{**payments, "image": "code-server:4.107"}),
        declaration(**docker("ml-gpu", "specs/ml.yaml", 1, owner="bob")),
        users=dict(stored.users),
    )
    return make_plan(stored, incoming, now=NOW, options=PlanOptions(retention=timedelta(days=30)))


def everything(**options: Any) -> Plan:
    """All that a plan can say at once, with secrets planted wherever one may stand."""
    stored = hub(*_stored(), users=_users_before(), hub=Hub(max_running_per_user=2))
    options.setdefault("as_of", NOW + timedelta(hours=8))
    wanted = _incoming(stored.workspaces)
    return make_plan(stored, wanted, now=NOW, options=PlanOptions(**options))


def _users_before() -> dict[str, Any]:
    return {
        "alice": user("alice", password_hash="$argon2id$old"),
        "bob": user("bob", display_name="Bob"),
        "zoe": user("zoe"),
    }


def _stored() -> list[Any]:
    busy = Activity(ago(minutes=2), "input")
    secret = {"TOKEN": "old", "GONE": CANARY}
    return [
        workspace(
            number=1,
            status=running(),
            activity=busy,
            env={"LANG": "C", **secret},
            secret_env={"DB": f"{CANARY}-name"},
            **docker("build", "specs/build.yaml", 1, update=UpdatePolicy.IMMEDIATE),
        ),
        workspace(
            number=2,
            status=running(),
            activity=Activity(ago(minutes=20)),
            **docker("demo", "specs/demo.yaml", 1, memo="a memo"),
        ),
        workspace(
            number=3,
            intent=Intent(STANDBY, IntentSource.CLI, ago(hours=2), "alice"),
            status=asleep(),
            **docker("docs", "specs/docs.yaml", 1),
        ),
        workspace(number=4, status=running(), activity=busy, **docker("gone", "specs/g.yaml", 1)),
        workspace(
            number=5,
            intent=Intent(
                RUNNING, override=Override(STANDBY, NOW + timedelta(hours=6), "incident 42")
            ),
            status=asleep(),
            **docker("night", "specs/night.yaml", 1),
        ),
        workspace(
            number=6,
            status=asleep(),
            desired=STANDBY,
            **docker("safe", "specs/s.yaml", 1, protect=True),
        ),
        workspace(
            number=7,
            generation=2,
            status=Status(
                phase=Phase.RUNNING,
                container_template="t0",
                phase_changed_at=ago(hours=5),
                conditions={
                    ConditionName.CONTAINER_READY: Condition(
                        ConditionStatus.FALSE, "Exited", "exit code 137"
                    )
                },
            ),
            activity=Activity(ago(hours=1)),
            **docker("web", "specs/web.yaml", 1),
        ),
        workspace(
            number=8,
            status=Status(
                phase=Phase.STANDBY, operation=Operation.STARTING, phase_changed_at=ago(minutes=1)
            ),
            **docker("api", "specs/api.yaml", 1),
        ),
        workspace(
            number=9,
            desired=DesiredState.DELETED,
            status=Status(phase=Phase.DELETED, archive_key="k", deleted_at=ago(days=2)),
            **docker("back", "specs/back.yaml", 1),
        ),
    ]


def _incoming(stored: Any) -> Any:
    rows = {row.name: row.declaration for row in stored}
    base = {
        name: {slot: getattr(row, slot) for slot in row.__slots__} for name, row in rows.items()
    }

    def changed(name: str, **fields: Any) -> Any:
        return declaration(**{**base[name], **fields})

    env = {"LANG": "C.UTF-8", "TOKEN": CANARY, "EXTRA": CANARY}
    return spec_set(
        changed("api", declared_state=STANDBY, owner="bob"),
        changed("back"),
        changed("build", env=env, secret_env={"DB": CANARY}, resources=Resources(2, 4 << 30)),
        changed("demo", declared_state=ARCHIVED, memo="a much longer memo, " * 6),
        changed("docs", labels={"team": "docs"}, ttl=Ttl(standby=7200, archive=0)),
        changed("night"),
        changed("web"),
        declaration(**docker("lab", "specs/lab.yaml", 9, start_on=StartOn.VISIT, env=env)),
        users={
            "alice": user("alice", password_hash=f"$argon2id${CANARY}", role=Role.ADMIN),
            "bob": user("bob", display_name="Bobby", max_running=3),
            "cleo": user("cleo", password_hash=f"$argon2id${CANARY}"),
        },
        hub=Hub(
            max_running_per_user=4,
            default_ttl="interactive",
            webhooks=(Webhook(f"https://hooks.example/{CANARY}", secret=CANARY),),
            source=Source("specs/hub.yaml", 1),
        ),
        origin=Origin("specs", "8c1f0e2d4b6a79887766554433221100ffeeddcc", dirty=True),
    )


def unchanged() -> Plan:
    stored = hub(workspace(status=running(), activity=Activity(NOW)))
    incoming = spec_set(declaration(), users=dict(stored.users))
    return make_plan(stored, incoming, now=NOW, options=PlanOptions())


def first() -> Plan:
    """Against no hub at all."""
    return make_plan(HubState(), spec_set(declaration()), now=NOW, options=PlanOptions())


HOSTILE = "\x1b[31m<img src=x onerror=alert(1)>|`**@all** \u202eevil\u2066\x07\n# head\u200b"


def hostile() -> Plan:
    """Values that try to break out of every rendering."""
    row = workspace(status=running(), description="plain", activity=Activity(NOW))
    stored = hub(row)
    incoming = spec_set(
        declaration(description=HOSTILE, labels={"k": HOSTILE}),
        declaration("new", image=HOSTILE, source=Source(f"specs/{HOSTILE}.yaml", 1)),
        users=dict(stored.users),
        origin=Origin(HOSTILE, HOSTILE),
    )
    return make_plan(stored, incoming, now=NOW, options=PlanOptions())
