"""The difference of two spec sets: what was written, whatever a hub made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.contrast import contrast
from codehub.model.people import Hub, Role, TtlPolicy
from codehub.model.workspace import Source, Ttl
from tests.make import declaration, spec_set, user

if TYPE_CHECKING:
    from codehub.model.plan import Change
    from codehub.model.revision import SpecSet


def told(old: SpecSet, new: SpecSet) -> list[str]:
    """`update Workspace api: image one -> two`, one line for each change."""
    return [_line(change) for change in contrast(old, new)]


def _line(change: Change) -> str:
    fields = ", ".join(f"{each.field} {each.old} -> {each.new}" for each in change.fields)
    return f"{change.action} {change.kind} {change.name}" + (f": {fields}" if fields else "")


def test_equal_specs_have_no_difference() -> None:
    here = spec_set(declaration("api", memo="m"))
    moved = spec_set(declaration("api", memo="m", source=Source("other.yaml", 9)), digest="d2")
    assert told(here, here) == []
    assert told(here, moved) == []


def test_what_came_changed_and_went() -> None:
    old = spec_set(declaration("api", image="one"), declaration("old"))
    new = spec_set(declaration("api", image="two"), declaration("web"))
    lines = told(old, new)
    assert lines[0] == "update Workspace api: image one -> two"
    assert lines[1] == "delete Workspace old"
    assert lines[2].startswith("create Workspace web: owner None -> alice")


def test_a_removal_is_one_whether_the_hub_prunes_or_not() -> None:
    kept = Hub(prune=False)
    old = spec_set(declaration("api"), declaration("old"), hub=kept)
    assert told(old, spec_set(declaration("api"), hub=kept)) == ["delete Workspace old"]


def test_a_renamed_workspace_is_one_change() -> None:
    old = spec_set(declaration("api"))
    new = spec_set(declaration("payments", renamed_from="api"))
    assert told(old, new) == ["update Workspace payments: name api -> payments"]


def test_there_and_back_are_mirrors() -> None:
    old = spec_set(declaration("api", port=1))
    new = spec_set(declaration("api", port=2))
    assert told(old, new) == ["update Workspace api: port 1 -> 2"]
    assert told(new, old) == ["update Workspace api: port 2 -> 1"]


def test_policies_differ_by_what_they_say() -> None:
    def policies(**ttls: Ttl) -> SpecSet:
        return spec_set(policies={name: TtlPolicy(name, ttl) for name, ttl in ttls.items()})

    old = policies(short=Ttl(standby=60, policy="short"), gone=Ttl())
    new = policies(short=Ttl(standby=120, policy="short"), fresh=Ttl(standby=0, archive=0))
    assert told(old, new) == [
        "create TTLPolicy fresh: ttl None -> standby never, archive never",
        "delete TTLPolicy gone",
        "update TTLPolicy short: ttl standby 1m, archive as the hub's setting"
        " -> standby 2m, archive as the hub's setting",
    ]


def test_people_and_the_hub_itself() -> None:
    old = spec_set(users={"alice": user("alice"), "bob": user("bob", password_hash="secret-1")})
    new = spec_set(
        users={
            "bob": user("bob", role=Role.ADMIN, password_hash="secret-2"),
            "carol": user("carol"),
        },
        hub=Hub(prune=False),
    )
    assert told(old, new) == [
        "delete User alice",
        "update User bob: role member -> admin, passwordHash None -> changed",
        "create User carol",
        "update Hub hub: prune true -> false",
    ]
