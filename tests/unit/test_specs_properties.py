"""Whatever stands in a file, reading it ends in documents or in problems, and in nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codehub.core.digest import digest_documents
from codehub.core.resolve import resolve
from codehub.core.suggest import nearest
from codehub.core.validate import check_document, check_references
from codehub.errors import SpecsInvalid
from codehub.model.problem import Fault
from codehub.model.revision import Origin
from codehub.model.workspace import Source
from codehub.specs.load import load_documents
from codehub.specs.locate import Layout
from codehub.specs.parse import parse
from codehub.specs.read import check_file, check_written

WORDS = [
    *("apiVersion: codehub.dev/v1", "kind: Workspace", "kind: User", "kind: Hub", "metadata:"),
    *("spec:", "  name: a", "  owner: a", "  image: i", "  env: {A: b}", "  ttl: x", "---", "..."),
    *("  - a", "  ", "\t", "&x", "*x", "{", "}", "[", "]", ": ", "? ", "|", ">", "'", '"', "#"),
    *("\\", "!", "!!str", "%YAML 1.1", "<<: *x", "~", "\ufeff", "\u2028", "\x85", "\x00", "\x1b"),
]
YAMLISH = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["\n", " ", "", "\r\n"])))
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "owner", "env", "ttl", "A", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(["a", "b", "c"])


@given(YAMLISH)
@settings(max_examples=400)
def test_yamlish_text_ends_in_documents_or_problems(words: list[tuple[str, str]]) -> None:
    content = "".join(word + end for word, end in words).encode()
    read = check_file("f.yaml", content)
    lines = content.count(b"\n") + content.count(b"\r") + content.count("\x85".encode()) + 2
    lines += content.count("\u2028".encode())
    for problem in read.problems:
        assert problem.message
        assert 0 <= problem.place.line <= lines
    assert read.problems or all(each.document for each in read.written)


@given(st.binary(max_size=200))
@settings(max_examples=200)
@example(b"\xef\xbb\xbf")
@example(b"a: \xf4\x90\x80\x80")
def test_any_bytes_end_in_documents_or_problems(content: bytes) -> None:
    parsed = parse(content)
    Layout(content).excerpt(1, where_it_broke=True)
    assert not parsed.broken or parsed.flaws


@given(st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec"]), DATA))
@settings(max_examples=200)
def test_any_data_is_a_document_or_has_faults(data: dict[str, Any]) -> None:
    whole = {"apiVersion": "codehub.dev/v1", "kind": "Workspace", **data}
    for candidate in (data, whole):
        result = check_document(candidate)
        if isinstance(result, tuple):
            assert result
            assert all(isinstance(each, Fault) and each.message for each in result)


@st.composite
def hubs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Documents that mostly fit together, with now and then one that does not."""
    documents: list[dict[str, Any]] = [
        {"kind": "User", "metadata": {"name": name}} for name in draw(st.sets(NAMES, min_size=1))
    ]
    for name in draw(st.sets(NAMES)):
        policy = draw(st.fixed_dictionaries({}, optional={"standby": st.just("3h")}))
        documents.append({"kind": "TTLPolicy", "metadata": {"name": name}, "spec": policy})
    for name in draw(st.lists(NAMES, max_size=3)):
        spec: dict[str, Any] = {"owner": draw(NAMES), "image": "i"}
        spec |= draw(st.fixed_dictionaries({}, optional={"ttl": NAMES, "renamedFrom": NAMES}))
        documents.append({"kind": "Workspace", "metadata": {"name": name}, "spec": spec})
    return [{"apiVersion": "codehub.dev/v1", **each} for each in documents]


@given(hubs(), st.randoms())
@settings(max_examples=150)
def test_the_order_of_documents_changes_neither_verdict_nor_digest(
    documents: list[dict[str, Any]], random: Any
) -> None:
    shuffled = list(documents)
    random.shuffle(shuffled)
    try:
        loaded = load_documents(documents, Origin("specs"))
    except SpecsInvalid:
        with pytest.raises(SpecsInvalid):
            load_documents(shuffled, Origin("specs"))
        return
    assert load_documents(shuffled, Origin("specs")).digest == loaded.digest
    stored = json.loads(json.dumps(loaded.documents))
    assert load_documents(stored, loaded.origin) == loaded


@given(hubs())
@settings(max_examples=150)
def test_what_passes_the_checks_can_be_resolved(documents: list[dict[str, Any]]) -> None:
    written = [check_written(each, Source("f.yaml", 1)) for each in documents]
    if not check_references(written) and all(each.document for each in written):
        resolved = resolve(written)
        assert len(resolved.workspaces) + len(resolved.users) + len(resolved.policies) == len(
            written
        )
        assert len(digest_documents(*resolved)) == 64


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=5))
@settings(max_examples=200)
def test_a_guess_is_one_of_the_choices(word: str, choices: list[str]) -> None:
    guess = nearest(word, choices)
    assert guess is None or guess in choices
    if word in choices and word.isascii() and word.isalpha():
        assert guess is not None
