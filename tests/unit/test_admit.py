"""Who decides the state: every row of the table in `core/admit.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.admit import admit, refusals
from codehub.model.people import Hub
from codehub.model.plan import Action
from codehub.model.revision import HubState
from codehub.model.states import LEVELS, DesiredState, Operation, Phase
from codehub.model.workspace import Runtime, Source, StartOn, Status, Ttl, UpdatePolicy
from tests.make import NOW, declaration, spec_set, workspace

RUNNING, STANDBY, ARCHIVED, DELETED = (
    DesiredState.RUNNING,
    DesiredState.STANDBY,
    DesiredState.ARCHIVED,
    DesiredState.DELETED,
)
ALL = frozenset(Runtime)
ASLEEP = Status(phase=Phase.STANDBY)


def gone(**fields: Any) -> Status:
    return Status(phase=Phase.DELETED, deleted_at=NOW - timedelta(days=1), **fields)


def only(stored: HubState, incoming: Any) -> Any:
    (admission,) = admit(stored, incoming)
    return admission


def test_a_new_workspace_is_desired_as_declared() -> None:
    one = only(HubState(), spec_set(declaration(declared_state=STANDBY)))
    assert (one.action, one.existing, one.desired) == (Action.CREATE, None, STANDBY)
    assert one.changed
    assert one.template_changed


@pytest.mark.parametrize(
    ("declared", "desired"), [(RUNNING, STANDBY), (STANDBY, STANDBY), (ARCHIVED, ARCHIVED)]
)
def test_a_new_workspace_that_waits_for_a_visit_stays_asleep(
    declared: DesiredState, desired: DesiredState
) -> None:
    one = only(HubState(), spec_set(declaration(declared_state=declared, start_on=StartOn.VISIT)))
    assert one.desired is desired


def test_an_unchanged_workspace_is_left_alone() -> None:
    one = only(HubState(workspaces=(workspace(desired=STANDBY),)), spec_set(declaration()))
    assert (one.action, one.desired, one.changed) == (Action.NONE, None, False)


def test_a_spec_that_moved_in_the_files_is_no_change_but_keeps_its_new_place() -> None:
    moved = declaration(source=Source("specs/other.yaml", 40))
    one = only(HubState(workspaces=(workspace(),)), spec_set(moved))
    assert (one.action, one.changed) == (Action.NONE, False)
    assert one.declaration.source == Source("specs/other.yaml", 40)


def test_another_name_for_the_same_ttl_is_no_change() -> None:
    stored = HubState(workspaces=(workspace(ttl=Ttl(60, 90)),))
    one = only(stored, spec_set(declaration(ttl=Ttl(60, 90, policy="short"))))
    assert one.action is Action.NONE


def test_other_fields_do_not_touch_the_state() -> None:
    stored = HubState(workspaces=(workspace(desired=STANDBY, image="a"),))
    one = only(stored, spec_set(declaration(image="b", memo="new")))
    assert (one.action, one.desired) == (Action.UPDATE, None)
    assert one.changed
    assert one.template_changed


@pytest.mark.parametrize(
    ("field", "value", "template"),
    [
        ("image", "b", True),
        ("command", ("other",), True),
        ("env", {"A": "1"}, True),
        ("secret_env", {"A": "name"}, True),
        ("port", 9000, True),
        ("memo", "text", False),
        ("labels", {"a": "b"}, False),
        ("inject", False, False),
        ("wake_from", ARCHIVED, False),
        ("ttl", Ttl(standby=1), False),
        ("update", UpdatePolicy.IMMEDIATE, False),
        ("pinned", True, False),
        ("suspend", True, False),
        ("protect", True, False),
        ("owner", "bob", False),
    ],
)
def test_every_field_counts_and_only_some_are_the_template(
    field: str, value: Any, template: bool
) -> None:
    one = only(HubState(workspaces=(workspace(),)), spec_set(declaration(**{field: value})))
    assert one.action is Action.UPDATE
    assert one.changed
    assert one.template_changed is template


def test_a_raised_ceiling_raises_what_is_desired() -> None:
    stored = HubState(workspaces=(workspace(desired=ARCHIVED, declared_state=ARCHIVED),))
    assert only(stored, spec_set(declaration())).desired is RUNNING


def test_a_raised_ceiling_wakes_nobody_who_waits_for_a_visit() -> None:
    row = workspace(desired=ARCHIVED, declared_state=ARCHIVED, start_on=StartOn.VISIT)
    one = only(HubState(workspaces=(row,)), spec_set(declaration(start_on=StartOn.VISIT)))
    assert one.desired is STANDBY


def test_a_raised_ceiling_never_lowers_what_is_desired() -> None:
    row = workspace(desired=RUNNING, declared_state=STANDBY, start_on=StartOn.VISIT)
    one = only(HubState(workspaces=(row,)), spec_set(declaration(start_on=StartOn.VISIT)))
    assert one.desired is None


def test_a_lowered_ceiling_leaves_the_desired_state_to_fall_by_itself() -> None:
    one = only(HubState(workspaces=(workspace(),)), spec_set(declaration(declared_state=ARCHIVED)))
    assert (one.action, one.desired) == (Action.UPDATE, None)


def test_what_is_removed_is_deleted() -> None:
    one = only(HubState(workspaces=(workspace(),)), spec_set())
    assert (one.action, one.desired, one.declaration) == (Action.DELETE, DELETED, None)


def test_what_is_removed_from_a_hub_that_does_not_prune_is_an_orphan() -> None:
    one = only(HubState(workspaces=(workspace(),)), spec_set(hub=Hub(prune=False)))
    assert (one.action, one.desired, one.orphaned) == (Action.ORPHAN, None, True)


def test_what_is_on_its_way_out_is_not_removed_again() -> None:
    stored = HubState(workspaces=(workspace(desired=DELETED), workspace("b", status=gone())))
    assert admit(stored, spec_set()) == ()


def test_an_orphan_that_is_declared_again_is_adopted() -> None:
    one = only(HubState(workspaces=(workspace(orphaned=True),)), spec_set(declaration()))
    assert (one.action, one.orphaned, one.changed) == (Action.UPDATE, False, False)


def test_what_its_owner_puts_back_comes_back() -> None:
    row = workspace(desired=DELETED, status=gone(archive_key="k"))
    one = only(HubState(workspaces=(row,)), spec_set(declaration(start_on=StartOn.VISIT)))
    assert (one.action, one.existing, one.desired) == (Action.UNDELETE, row, STANDBY)


def test_what_its_owner_puts_back_during_the_deletion_comes_back() -> None:
    row = workspace(desired=DELETED, status=ASLEEP)
    one = only(HubState(workspaces=(row,)), spec_set(declaration()))
    assert (one.action, one.existing, one.desired) == (Action.UNDELETE, row, RUNNING)


def test_another_owner_gets_a_new_workspace() -> None:
    row = workspace(desired=DELETED, status=gone(archive_key="k"))
    one = only(HubState(workspaces=(row,)), spec_set(declaration(owner="eve")))
    assert (one.action, one.existing) == (Action.CREATE, None)


def test_the_newest_of_several_deleted_ones_comes_back() -> None:
    old = workspace(number=1, desired=DELETED, status=gone())
    newer = Status(phase=Phase.DELETED, deleted_at=NOW)
    new = workspace(number=2, desired=DELETED, status=newer)
    assert only(HubState(workspaces=(new, old)), spec_set(declaration())).existing is new


def test_what_was_purged_cannot_come_back() -> None:
    row = workspace(desired=DELETED, status=gone(purged_at=NOW))
    assert only(HubState(workspaces=(row,)), spec_set(declaration())).action is Action.CREATE


def test_a_renamed_workspace_keeps_its_identity() -> None:
    row = workspace("old", status=ASLEEP)
    one = only(HubState(workspaces=(row,)), spec_set(declaration("new", renamed_from="old")))
    assert (one.action, one.name, one.existing) == (Action.UPDATE, "new", row)


def test_a_rename_is_followed_once() -> None:
    row = workspace("new", status=ASLEEP)
    again = declaration("new", renamed_from="old", source=row.declaration.source)
    stored = HubState(workspaces=(row,))
    assert only(stored, spec_set(again)).action is Action.NONE
    assert refusals(stored, spec_set(again), ALL) == ()


def test_names_may_be_passed_on() -> None:
    a, b = workspace("a", number=1), workspace("b", number=2)
    incoming = spec_set(declaration("b", renamed_from="a"), declaration("c", renamed_from="b"))
    stored = HubState(workspaces=(a, b))
    found = {one.name: one.existing for one in admit(stored, incoming)}
    assert found == {"b": a, "c": b}
    assert refusals(stored, incoming, ALL) == ()


def test_names_cannot_be_swapped_because_that_would_never_end() -> None:
    a, b = workspace("a", number=1), workspace("b", number=2)
    incoming = spec_set(declaration("a", renamed_from="b"), declaration("b", renamed_from="a"))
    found = {one.name: one.existing for one in admit(HubState(workspaces=(a, b)), incoming)}
    assert found == {"a": a, "b": b}


STATES = st.sampled_from([RUNNING, STANDBY, ARCHIVED])


@given(before=STATES, then=STATES, desired=STATES, start_on=st.sampled_from(StartOn))
@settings(max_examples=100)
def test_specs_never_lower_what_is_desired_and_never_pass_the_ceiling(
    before: DesiredState, then: DesiredState, desired: DesiredState, start_on: StartOn
) -> None:
    row = workspace(desired=desired, declared_state=before, start_on=start_on)
    incoming = spec_set(declaration(declared_state=then, start_on=start_on))
    asked = only(HubState(workspaces=(row,)), incoming).desired
    if asked is not None:
        assert LEVELS[desired] < LEVELS[asked] <= LEVELS[then]
        assert LEVELS[before] < LEVELS[then]


def refusal(stored: HubState, incoming: Any, enabled: frozenset[Runtime] = ALL) -> str:
    (problem,) = refusals(stored, incoming, enabled)
    return str(problem)


@pytest.mark.parametrize("phase", [Phase.STANDBY, Phase.RUNNING, Phase.ERROR])
def test_the_runtime_cannot_change_under_a_home(phase: Phase) -> None:
    stored = HubState(workspaces=(workspace(status=Status(phase=phase)),))
    text = refusal(stored, spec_set(declaration(runtime=Runtime.DOCKER)))
    assert text.startswith("specs/api.yaml:1: spec.runtime: api: runtime changes from process")
    assert f"while it is {phase}; archive it first: codehub archive api" in text


@pytest.mark.parametrize("phase", [Phase.ARCHIVED, Phase.PENDING])
def test_the_runtime_may_change_where_nothing_lives_in_it(phase: Phase) -> None:
    stored = HubState(workspaces=(workspace(status=Status(phase=phase)),))
    assert refusals(stored, spec_set(declaration(runtime=Runtime.DOCKER)), ALL) == ()


def test_the_runtime_cannot_change_while_a_home_is_being_restored() -> None:
    busy = Status(phase=Phase.ARCHIVED, operation=Operation.RESTORING)
    stored = HubState(workspaces=(workspace(status=busy),))
    assert "while it is RESTORING" in refusal(stored, spec_set(declaration(runtime=Runtime.DOCKER)))


def test_a_runtime_that_is_not_enabled_is_refused() -> None:
    text = refusal(HubState(), spec_set(declaration()), frozenset({Runtime.DOCKER}))
    assert text.endswith("runtime process is not enabled on this hub (enabled: docker)")


def test_an_unknown_old_name_is_refused_with_a_guess() -> None:
    stored = HubState(workspaces=(workspace("payments"),))
    incoming = spec_set(declaration("pay", renamed_from="paymnets"))
    text = refusal(stored, incoming)
    assert 'spec.renamedFrom: pay: this hub knows no workspace "paymnets"' in text
    assert 'did you mean "payments"?' in text


def test_an_empty_hub_knows_no_old_names_and_does_not_mind() -> None:
    assert refusals(HubState(), spec_set(declaration("new", renamed_from="old")), ALL) == ()


def test_an_old_name_that_is_still_declared_is_refused() -> None:
    stored = HubState(workspaces=(workspace("old"),))
    incoming = spec_set(declaration("old"), declaration("new", renamed_from="old"))
    assert '"old" is still declared at specs/old.yaml:1' in refusal(stored, incoming)


def test_two_cannot_have_been_the_same() -> None:
    stored = HubState(workspaces=(workspace("old"),))
    incoming = spec_set(declaration("a", renamed_from="old"), declaration("b", renamed_from="old"))
    problems = refusals(stored, incoming, ALL)
    assert [problem.place.file for problem in problems] == ["specs/a.yaml", "specs/b.yaml"]
    assert '2 workspaces say that they were "old"' in problems[0].message


def test_another_owner_waits_until_a_deletion_is_done() -> None:
    stored = HubState(workspaces=(workspace(desired=DELETED, status=ASLEEP),))
    text = refusal(stored, spec_set(declaration(owner="eve")))
    assert "that alice owned is still being deleted; apply again" in text
