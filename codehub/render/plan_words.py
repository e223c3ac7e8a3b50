"""What text, Markdown and HTML say of a plan, so that all three say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.plan import PASSIVE, Action, Kind
from codehub.render.words import clean, counted, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codehub.model.plan import Change, FieldChange, Plan

SYMBOLS: Final = {
    Action.CREATE: "+",
    Action.UPDATE: "~",
    Action.DELETE: "-",
    Action.UNDELETE: "+",
    Action.HELD: "=",
    Action.ORPHAN: "?",
    Action.NONE: "=",
}

VERBS: Final = {
    Action.CREATE: "create",
    Action.UPDATE: "update",
    Action.DELETE: "delete",
    Action.UNDELETE: "bring back",
    Action.HELD: "held",
    Action.ORPHAN: "orphan",
    Action.NONE: "waiting",
}

TILES: Final = (
    ("create", "to create"),
    ("update", "to update"),
    ("delete", "to delete"),
    ("deferred", "deferred"),
    ("held", "held"),
    ("drifted", "drifted"),
)

NO_CHANGES: Final = "No changes. The hub is as the specs declare it."
DRIFT_ONLY: Final = "No changes in the specs, but reality has drifted from what was applied."

ORPHANS: Final = "Orphans, kept though no spec declares them, because the hub does not prune"
HELD: Final = "Held by policy, nothing to do"
WAITING: Final = "Applied earlier, still waiting"
DRIFT: Final = "Drift, where reality differs from what was last applied"
UNSAFE: Final = "Unsafe, applying this needs --force"

_TEXTUAL: Final = frozenset({"name", "owner", "description", "memo", "image", "displayName"})
_TEXTUAL_ENTRIES: Final = frozenset({"labels", "env", "secretEnv"})


def active(plan: Plan) -> tuple[Change, ...]:
    """What would be changed."""
    return tuple(each for each in plan.changes if each.action not in PASSIVE)


def passive(plan: Plan) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """What would not be changed but should be known, by its heading."""
    for heading, action in ((HELD, Action.HELD), (WAITING, Action.NONE), (ORPHANS, Action.ORPHAN)):
        found = tuple(each for each in plan.changes if each.action is action)
        if found:
            yield heading, found


def summary_words(plan: Plan) -> str:
    """`1 to create, 1 to update, 1 to delete; 1 deferred, 1 held, 0 drifted`."""
    count = plan.summary
    return (
        f"{count.create} to create, {count.update} to update, {count.delete} to delete; "
        f"{count.deferred} deferred, {count.held} held, {count.drifted} drifted"
    )


def verdict(plan: Plan) -> str | None:
    """The sentence that stands where the changes would, when there are none."""
    if plan.has_changes:
        return None
    return DRIFT_ONLY if plan.drift else NO_CHANGES


def specs_words(plan: Plan) -> str:
    """Which specs were planned: the directory and the commit."""
    text = clean(plan.directory)
    if plan.commit:
        text += f", commit {clean(plan.commit[:12])}"
        text += " with uncommitted changes" if plan.dirty else ""
    return text


def hub_words(plan: Plan) -> str:
    """What they were compared with."""
    if plan.against_empty:
        return "an empty hub"
    name = f"hub {clean(plan.hub_id[:8])}" if plan.hub_id else "the hub"
    if plan.base_revision is None:
        return f"{name}, where nothing has been applied yet"
    return f"{name} at revision {plan.base_revision}"


def target_words(plan: Plan) -> str | None:
    """That this is not the whole."""
    if plan.target is None:
        return None
    return f"Only {clean(plan.target)} (--target): everything else is left out and left alone."


def kind_word(change: Change) -> str:
    return "TTL policy" if change.kind is Kind.TTL_POLICY else change.kind.value.lower()


def source_words(change: Change) -> str:
    """Where it is declared, or that it is declared no more."""
    if change.source is not None and change.source.file:
        return clean(str(change.source))
    gone = change.action in (Action.DELETE, Action.ORPHAN)
    return "removed" if gone else ""


def field_symbol(change: FieldChange) -> str:
    if change.withheld:
        return {"added": "+", "removed": "-"}.get(change.new or "", "~")
    return "+" if change.old is None else "-" if change.new is None else "~"


def value_words(change: FieldChange, width: int | None = None) -> list[str]:
    """The old and the new value, where there are such: cleaned, shortened, quoted if free text.

    Where long values differ only far inside, what they have in common is cut as well.
    """
    values = [clean(each) for each in (change.old, change.new) if each is not None]
    if width is not None and any(len(each) > width for each in values):
        values = [shorten(each, width) for each in _apart(values, width // 2)]
    head = change.field.partition(".")[0]
    quoted = change.field in _TEXTUAL or head in _TEXTUAL_ENTRIES
    return [f'"{each}"' if quoted and not change.withheld else each for each in values]


def _apart(values: list[str], room: int) -> list[str]:
    same = 0
    for one, other in zip(values[0], values[-1], strict=False):
        if one != other:
            break
        same += 1
    cut = same - room
    return values if len(values) < 2 or cut <= 0 else ["…" + each[cut:] for each in values]


def field_words(change: FieldChange, *, arrow: str = "->", width: int | None = None) -> str:
    """`"old" -> "new"`, or the one of them that there is."""
    return f" {arrow} ".join(value_words(change, width))


def spec_words(change: Change) -> str:
    """A new workspace in one line: whose it is and what runs in it."""
    fields = {each.field: each.new for each in change.fields}
    parts = [f"owner {clean(fields.get('owner') or '?')}", clean(fields.get("runtime") or "")]
    for name in ("image", "command", "desiredState"):
        value = fields.get(name)
        if value:
            parts.append(f"{name} {shorten(clean(value), 60)}")
    return ", ".join(part for part in parts if part)


def path_words(path: Sequence[str], arrow: str = "->") -> str:
    """The way of a workspace; that DELETING ends in DELETED goes without saying."""
    steps = list(path)
    if steps[-2:] == ["DELETING", "DELETED"]:
        steps.pop()
    return f" {arrow} ".join(clean(step) for step in steps)


def facts(change: Change, *, arrow: str = "->") -> Iterator[tuple[str, str]]:
    """Label and text of all that is said of a change beside its fields."""
    if change.held:
        yield "state", clean(change.held)
    notes = list(change.notes)
    if len(change.path) > 1:
        text = path_words(change.path, arrow)
        if change.action is Action.DELETE and notes:
            text += f"; {clean(notes.pop(0))}"
        yield "path", text
    if change.deferred and change.deferred not in {each.effect for each in change.fields}:
        yield "waits", clean(change.deferred.removeprefix("waits "))
    if change.stops_now:
        yield "stops now", clean(change.stops_now)
    if change.stops_later:
        yield "stops later", clean(change.stops_later)
    for note in notes:
        yield "note", clean(note)


def more_words(count: int, what: str) -> str:
    """What a cut list leaves out."""
    return f"… and {counted(count, what)} more; --format json has them all"
