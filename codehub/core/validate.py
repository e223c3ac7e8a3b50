"""Check documents: each by itself, then what they say of each other.

All faults are collected. A fault names the path inside its document; where that stands in a
file is found out by the reader, and only when there is something to report.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from codehub.core.phrase import one_of, phrase
from codehub.core.resolve import choose_runtime
from codehub.core.suggest import did_you_mean
from codehub.core.withhold import quoted
from codehub.model.problem import Fault
from codehub.model.spec import (
    API_VERSION,
    DOCUMENTS,
    Document,
    HubDocument,
    WorkspaceDocument,
)
from codehub.model.workspace import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codehub.model.document import Written

NEST: Final = 4
"""How deep a spec's own fields lie: beyond it there are only values."""

FAULTS: Final = 100
"""Faults worth putting into words for one document; garbage has a hundred thousand."""


WEBHOOKS: Final = 20
"""Each has connections of its own, so there is an end to them."""


def check_document(data: Mapping[str, object]) -> Document | tuple[Fault, ...]:
    """The document that plain data describes, or everything that is wrong with it by itself."""
    envelope = tuple(_envelope_faults(data))
    if envelope:
        return envelope
    model = DOCUMENTS[str(data["kind"])]
    faults = [*_empty_faults(data)] if _has_empty(data) else []
    try:
        document = model.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)[:FAULTS]
        faults += [phrase(each, model) for each in details if each["input"] is not None]
        return tuple(faults)
    if isinstance(document, WorkspaceDocument):
        faults += _workspace_faults(document)
    if isinstance(document, HubDocument):
        faults += _webhook_faults(document)
    return tuple(faults) or document


def check_references(
    written: Sequence[Written], *, complete: bool = True
) -> list[tuple[int, Fault]]:
    """What is wrong between documents, each fault with the index of its document.

    Names count as declared although the rest of their document is wrong. With files missing from
    the picture (`complete` False) nothing is called unknown: it may stand in one of those.
    """
    named = _declared(written)
    faults = [*_duplicates(written)]
    hubs = [each.document for each in written if isinstance(each.document, HubDocument)]
    default = hubs[0].spec.default_runtime if hubs else None
    runtime_known = complete and len(hubs) == sum(each.kind == "Hub" for each in written)
    for index, each in enumerate(written):
        document = each.document
        if complete and document is not None:
            # Guessing compares with every known name; nobody reads a thousand guesses.
            guess = len(faults) < FAULTS
            faults += ((index, fault) for fault in _unknown(document, named, guess=guess))
        if isinstance(document, WorkspaceDocument):
            if document.spec.runtime or runtime_known:
                faults += ((index, fault) for fault in _needs(document, default))
            faults += ((index, fault) for fault in _rename_faults(document, named, written))
    return [*faults, *_claimed_twice(written)]


def _envelope_faults(data: Mapping[str, object]) -> Iterator[Fault]:
    for field, known in (("apiVersion", [API_VERSION]), ("kind", list(DOCUMENTS))):
        value = data.get(field)
        if field not in data:
            yield Fault((field,), f"is required: {one_of(known)}")
        elif not isinstance(value, str):
            yield Fault((field,), f"must be {one_of(known)}")
        elif value not in known:
            guess = did_you_mean(value, known) or f"; known: {', '.join(known)}"
            yield Fault((field,), f"unknown {field} {quoted(value)}{guess}")


def _has_empty(data: Mapping[str, object]) -> bool:
    """Nearly always False, and quicker found than `_empty_faults` walks."""
    for value in data.values():
        if value is None or (type(value) is dict and _has_empty(value)):
            return True
    return False


def _empty_faults(data: Mapping[str, object], path: tuple[str | int, ...] = ()) -> Iterator[Fault]:
    """A key with nothing after it: it may mean the default, or a value that was forgotten."""
    for key, value in data.items():
        if value is None:
            text = 'has no value: write "" for an empty one, or remove it'
            secret = path[-1:] in (("env",), ("labels",))
            yield Fault((*path, key), text if secret else "has no value: give one, or remove it")
        elif isinstance(value, dict) and len(path) < NEST:
            yield from _empty_faults(value, (*path, key))


def _workspace_faults(document: WorkspaceDocument) -> Iterator[Fault]:
    spec = document.spec
    for key in spec.env.keys() & spec.secret_env.keys():
        yield Fault(("spec", "secretEnv", key), "is given in env too", at_key=True)
    if spec.command and not spec.command[0]:
        yield Fault(("spec", "command", 0), "must name the program to run")
    if spec.renamed_from == document.metadata.name:
        yield Fault(("spec", "renamedFrom"), "is the workspace's own name")


def _webhook_faults(document: HubDocument) -> Iterator[Fault]:
    """Each is known by its address, and where it has one by its name."""
    hooks = document.spec.webhooks
    if len(hooks) > WEBHOOKS:
        yield Fault(("spec", "webhooks"), f"must be at most {WEBHOOKS}, not {len(hooks)}")
    first: dict[tuple[str, str | None], int] = {}
    for index, each in enumerate(hooks):
        for field, value in (("url", each.url), ("name", each.name)):
            there = first.setdefault((field, value), index)
            if value is not None and there != index:
                path = ("spec", "webhooks", index, field)
                yield Fault(path, f"is that of spec.webhooks[{there}] already")


def _declared(written: Sequence[Written]) -> dict[str, dict[str, int]]:
    """Kind → name → index of the first document that declares it."""
    named: dict[str, dict[str, int]] = defaultdict(dict)
    for index, each in enumerate(written):
        if each.name is not None and each.kind is not None:
            named[each.kind].setdefault(each.name, index)
    return named


def _duplicates(written: Sequence[Written]) -> Iterator[tuple[int, Fault]]:
    seen: dict[tuple[str, str], Written] = {}
    for index, each in enumerate(written):
        if each.kind == "Hub":
            first = seen.setdefault(("Hub", ""), each)
            message = f"there is a Hub already, at {first.source}; at most one may be declared"
            path: tuple[str, ...] = ("kind",)
        elif each.name is not None and each.kind is not None:
            first = seen.setdefault((each.kind, each.name), each)
            message = f"{quoted(each.name)} is declared already, at {first.source}"
            path = ("metadata", "name")
        else:
            continue
        if first is not each:
            yield index, Fault(path, message)


def _unknown(
    document: Document, named: Mapping[str, dict[str, int]], *, guess: bool
) -> Iterator[Fault]:
    users, policies = named.get("User", {}), named.get("TTLPolicy", {})
    if isinstance(document, WorkspaceDocument):
        spec = document.spec
        if spec.owner not in users:
            yield _missing(("spec", "owner"), "user", spec.owner, users if guess else ())
        if isinstance(spec.ttl, str) and spec.ttl not in policies:
            yield _missing(("spec", "ttl"), "policy", spec.ttl, policies if guess else ())
    elif isinstance(document, HubDocument):
        name = document.spec.default_ttl
        if name is not None and name not in policies:
            yield _missing(("spec", "defaultTTL"), "policy", name, policies if guess else ())


def _missing(path: tuple[str, ...], what: str, name: str, known: Iterable[str]) -> Fault:
    return Fault(path, f"unknown {what} {quoted(name)}{did_you_mean(name, known)}")


def _needs(document: WorkspaceDocument, default: Runtime | None) -> Iterator[Fault]:
    """What the runtime cannot do without."""
    spec = document.spec
    runtime = choose_runtime(spec, default)
    if runtime is Runtime.PROCESS and not spec.command:
        given = spec.runtime or default
        yield Fault(
            ("spec", "command"),
            "is required by the runtime process" if given else "a command or an image is required",
        )
    if runtime is not Runtime.PROCESS and spec.image is None:
        yield Fault(("spec", "image"), f"is required by the runtime {runtime}")


def _rename_faults(
    document: WorkspaceDocument,
    named: Mapping[str, dict[str, int]],
    written: Sequence[Written],
) -> Iterator[Fault]:
    old = document.spec.renamed_from
    if old is not None and old in named["Workspace"]:
        source = written[named["Workspace"][old]].source
        yield Fault(("spec", "renamedFrom"), f"{quoted(old)} is still declared, at {source}")


def _claimed_twice(written: Sequence[Written]) -> Iterator[tuple[int, Fault]]:
    """One home cannot follow two names."""
    claimed: dict[str, Written] = {}
    for index, each in enumerate(written):
        document = each.document
        if not isinstance(document, WorkspaceDocument) or document.spec.renamed_from is None:
            continue
        first = claimed.setdefault(document.spec.renamed_from, each)
        if first is not each:
            old = quoted(document.spec.renamed_from)
            message = f"{old} is claimed already, by the workspace at {first.source}"
            yield index, Fault(("spec", "renamedFrom"), message)
