"""Field by field: what is shown of two versions, and what is withheld."""

from __future__ import annotations

from typing import Any

import pytest

from codehub.core.compare import compare_declarations, compare_hubs, compare_users, ttl_text
from codehub.model.people import Hub, Role, Webhook
from codehub.model.plan import FieldChange
from codehub.model.states import DesiredState
from codehub.model.workspace import ActivityPolicy, Resources, Runtime, Ttl, UpdatePolicy
from tests.make import declaration, user

SECRET = "sesame-4711"


def differences(**fields: Any) -> dict[str, tuple[str | None, str | None]]:
    found = compare_declarations(declaration(), declaration(**fields))
    return {each.field: (each.old, each.new) for each in found}


def test_equal_declarations_differ_in_nothing() -> None:
    assert compare_declarations(declaration(), declaration()) == ()


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"image": "b"}, {"image": (None, "b")}),
        ({"command": ("a", "b c")}, {"command": ('["serve"]', '["a", "b c"]')}),
        ({"port": 9}, {"port": ("8080", "9")}),
        ({"runtime": Runtime.DOCKER}, {"runtime": ("process", "docker")}),
        ({"declared_state": DesiredState.STANDBY}, {"desiredState": ("RUNNING", "STANDBY")}),
        ({"update": UpdatePolicy.IMMEDIATE}, {"update": ("nextStart", "immediate")}),
        ({"pinned": True}, {"pinned": ("false", "true")}),
        ({"labels": {"a": "b"}}, {"labels.a": (None, "b")}),
        (
            {"resources": Resources(1.5, 512 << 20, 100)},
            {
                "resources.cpus": (None, "1.5"),
                "resources.memory": (None, "512Mi"),
                "resources.pids": (None, "100"),
            },
        ),
        ({"resources": Resources(pids=1_000_000)}, {"resources.pids": (None, "1000000")}),
    ],
)
def test_a_field_shows_what_it_was_and_is(
    fields: dict[str, object], shown: dict[str, tuple[str | None, str | None]]
) -> None:
    assert differences(**fields) == shown


def test_env_shows_keys_and_what_happened_to_them_but_no_value() -> None:
    old = declaration(env={"A": "1", "B": SECRET, "SAME": SECRET})
    new = declaration(env={"A": SECRET, "C": SECRET, "SAME": SECRET})
    assert compare_declarations(old, new) == (
        FieldChange("env.A", None, "changed", withheld=True),
        FieldChange("env.B", None, "removed", withheld=True),
        FieldChange("env.C", None, "added", withheld=True),
    )


def test_env_shows_values_when_asked_to() -> None:
    old, new = declaration(env={"A": "1"}), declaration(env={"A": "2"})
    assert compare_declarations(old, new, show_env=True) == (FieldChange("env.A", "1", "2"),)


def test_the_names_of_secrets_are_withheld_like_values() -> None:
    found = compare_declarations(declaration(), declaration(secret_env={"A": SECRET}))
    assert found == (FieldChange("secretEnv.A", None, "added", withheld=True),)


def test_only_template_fields_have_an_effect() -> None:
    new = declaration(image="b", env={"A": "1"}, memo="text", resources=Resources(1))
    found = compare_declarations(declaration(), new, effect="later")
    assert {each.field: each.effect for each in found} == {
        "memo": "",
        "image": "later",
        "resources.cpus": "later",
        "env.A": "later",
    }


def test_a_new_workspace_shows_all_that_is_not_a_default() -> None:
    found = compare_declarations(None, declaration(pinned=True, env={"A": SECRET}))
    assert [(each.field, each.old, each.new) for each in found] == [
        ("owner", None, "alice"),
        ("runtime", None, "process"),
        ("command", None, '["serve"]'),
        ("pinned", None, "true"),
        ("env.A", None, "added"),
    ]


def test_a_ttl_is_one_field_and_its_name_alone_is_no_difference() -> None:
    assert differences(ttl=Ttl(policy="x")) == {}
    assert differences(ttl=Ttl(90, 0, policy="x")) == {
        "ttl": (
            "standby as the hub's setting, archive as the hub's setting",
            "x (standby 90s, archive never)",
        )
    }


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        (Ttl(10800, 86400), "standby 3h, archive 24h"),
        (Ttl(600, 604800), "standby 10m, archive 7d"),
        (
            Ttl(60, 60, ActivityPolicy.TRAFFIC, 50),
            "standby 1m, archive 1m, activity traffic, busyCpu 50%",
        ),
        (Ttl(60, 60, busy_cpu=0), "standby 1m, archive 1m, busyCpu off"),
    ],
)
def test_a_ttl_reads_like_its_spec(ttl: Ttl, text: str) -> None:
    assert ttl_text(ttl) == text


def test_a_user_shows_everything_but_the_hash() -> None:
    old = user(display_name="A", password_hash=SECRET)
    new = user(role=Role.ADMIN, max_running=3, password_hash=f"{SECRET}2")
    assert compare_users(old, new) == (
        FieldChange("displayName", "A", None),
        FieldChange("role", "member", "admin"),
        FieldChange("maxRunning", None, "3"),
        FieldChange("passwordHash", None, "changed", withheld=True),
    )
    assert compare_users(user(disabled=True), user()) == (FieldChange("disabled", "true", "false"),)


def test_the_hub_withholds_webhooks_because_addresses_carry_tokens() -> None:
    old = Hub(max_running_global=100)
    new = Hub(prune=False, webhooks=(Webhook(f"https://hooks.example/{SECRET}"),))
    assert compare_hubs(old, new) == (
        FieldChange("maxRunningGlobal", "100", None),
        FieldChange("prune", "true", "false"),
        FieldChange("webhooks", None, "added", withheld=True),
    )
