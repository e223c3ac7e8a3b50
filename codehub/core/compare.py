"""Two versions of one object, field by field, in words that may be shown.

Field names are those a spec writes. Values that may be secret are withheld here, before any
rendering sees them: env values (unless asked for), the secrets an env refers to, password hashes,
and webhook addresses, which often carry a token.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.express import seconds, size
from codehub.model.people import Hub, User
from codehub.model.plan import FieldChange
from codehub.model.workspace import NEVER, ActivityPolicy, Declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from codehub.model.workspace import Ttl

TEMPLATE_FIELDS: Final = frozenset({"image", "command", "port", "env", "secretEnv", "resources"})
"""What a running workspace cannot take over without a restart (by the part before the dot)."""


def compare_declarations(
    old: Declaration | None, new: Declaration, *, effect: str = "", show_env: bool = False
) -> tuple[FieldChange, ...]:
    """What differs; against None, everything that is not a default.

    `effect` says when changed template fields take effect.
    """
    left = old or Declaration(name=new.name, owner="", runtime=new.runtime)
    if replace(left.ttl, policy=new.ttl.policy) == new.ttl:
        # The name of a policy is not a change as long as it says the same.
        left = replace(left, ttl=new.ttl)
    found = [
        *_plain(left, new, created=old is None),
        *_entries("labels", left.labels, new.labels, show=True),
        *_entries("env", left.env, new.env, show=show_env),
        *_entries("secretEnv", left.secret_env, new.secret_env, show=show_env),
    ]
    return tuple(_with_effect(each, effect) for each in found)


def _plain(old: Declaration, new: Declaration, *, created: bool) -> Iterator[FieldChange]:
    for field, text in _FIELDS:
        before, after = text(old), text(new)
        if before != after:
            yield FieldChange(field, None if created else before, after)
        elif created and field == "runtime":
            yield FieldChange(field, None, after)


def _entries(
    field: str, old: Mapping[str, str], new: Mapping[str, str], *, show: bool
) -> Iterator[FieldChange]:
    if old == new:
        return
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before != after:
            name = f"{field}.{key}"
            yield FieldChange(name, before, after) if show else withheld(name, before, after)


def withheld(field: str, old: object, new: object) -> FieldChange:
    """That a field changed, without what it was or is."""
    word = "added" if old is None else "removed" if new is None else "changed"
    return FieldChange(field, None, word, withheld=True)


def _with_effect(change: FieldChange, effect: str) -> FieldChange:
    if not effect or change.field.partition(".")[0] not in TEMPLATE_FIELDS:
        return change
    return FieldChange(change.field, change.old, change.new, effect, change.withheld)


def ttl_text(ttl: Ttl) -> str:
    """`interactive (standby 3h, archive 24h)`; what is not said is as usual."""
    parts = [f"standby {_span(ttl.standby)}", f"archive {_span(ttl.archive)}"]
    if ttl.activity is not ActivityPolicy.AUTO:
        parts.append(f"activity {ttl.activity}")
    if ttl.busy_cpu != _USUAL_CPU:
        parts.append(f"busyCpu {ttl.busy_cpu}%" if ttl.busy_cpu else "busyCpu off")
    values = ", ".join(parts)
    return f"{ttl.policy} ({values})" if ttl.policy else values


_USUAL_CPU: Final = 25


def _span(value: int | None) -> str:
    if value is None:
        return "as the hub's setting"
    return "never" if value == NEVER else seconds(value)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str | None:
    return None if value is None else str(value)


def _cpus(declaration: Declaration) -> str | None:
    count = declaration.resources.cpus
    return None if count is None else f"{count:.6g}"


def _command(declaration: Declaration) -> str | None:
    words = list(declaration.command)
    return json.dumps(words, ensure_ascii=False) if words else None


def _memory(declaration: Declaration) -> str | None:
    count = declaration.resources.memory_bytes
    return None if count is None else size(count)


_FIELDS: Final[tuple[tuple[str, Callable[[Declaration], str | None]], ...]] = (
    ("name", lambda one: one.name),
    ("owner", lambda one: one.owner),
    ("description", lambda one: one.description or None),
    ("memo", lambda one: one.memo or None),
    ("image", lambda one: one.image),
    ("runtime", lambda one: one.runtime),
    ("command", _command),
    ("port", lambda one: str(one.port)),
    ("pathPrefix", lambda one: one.path_prefix),
    ("inject", lambda one: _flag(one.inject)),
    ("resources.cpus", _cpus),
    ("resources.memory", _memory),
    ("resources.pids", lambda one: _optional(one.resources.pids)),
    ("desiredState", lambda one: one.declared_state),
    ("startOn", lambda one: one.start_on),
    ("wakeFrom", lambda one: one.wake_from),
    ("ttl", lambda one: ttl_text(one.ttl)),
    ("update", lambda one: one.update),
    ("pinned", lambda one: _flag(one.pinned)),
    ("suspend", lambda one: _flag(one.suspend)),
    ("protect", lambda one: _flag(one.protect)),
)


def compare_users(old: User | None, new: User) -> tuple[FieldChange, ...]:
    """What differs between two versions of a user; against None, what is not a default."""
    left = old or User(name=new.name)
    pairs = (
        ("displayName", left.display_name or None, new.display_name or None),
        ("role", left.role, new.role),
        ("maxRunning", _optional(left.max_running), _optional(new.max_running)),
        ("disabled", _flag(left.disabled), _flag(new.disabled)),
    )
    found = list(_pairs(pairs, created=old is None))
    if left.password_hash != new.password_hash:
        found.append(withheld("passwordHash", left.password_hash, new.password_hash))
    return tuple(found)


def compare_hubs(old: Hub, new: Hub) -> tuple[FieldChange, ...]:
    """What differs between two versions of the hub's defaults and limits."""
    per_user, in_all = new.max_running_per_user, new.max_running_global
    pairs = (
        ("maxRunningPerUser", _optional(old.max_running_per_user), _optional(per_user)),
        ("maxRunningGlobal", _optional(old.max_running_global), _optional(in_all)),
        ("defaultTTL", old.default_ttl, new.default_ttl),
        ("defaultRuntime", old.default_runtime, new.default_runtime),
        ("prune", _flag(old.prune), _flag(new.prune)),
    )
    found = list(_pairs(pairs, created=False))
    if old.webhooks != new.webhooks:
        found.append(withheld("webhooks", old.webhooks or None, new.webhooks or None))
    return tuple(found)


def _pairs(
    pairs: Iterable[tuple[str, str | None, str | None]], *, created: bool
) -> Iterator[FieldChange]:
    for field, before, after in pairs:
        if before != after:
            yield FieldChange(field, None if created else before, after)
