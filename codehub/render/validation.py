"""What `codehub validate` says: valid and of what, or every problem; for people and for scripts."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from codehub.model.problem import in_order
from codehub.render.words import clean, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.problem import Problem
    from codehub.model.revision import SpecSet

FORMAT_VERSION: Final = 1
_WORDS: Final = {
    "Workspace": ("workspace", "workspaces"),
    "User": ("user", "users"),
    "TTLPolicy": ("TTL policy", "TTL policies"),
    "Hub": ("hub", "hubs"),
}


def valid_text(specs: SpecSet) -> str:
    """`specs: 8 documents in 4 files are valid (3 workspaces, 2 users).`"""
    documents, files = len(specs.documents), _files(specs)
    verb = "is" if documents == 1 else "are"
    kinds = ", ".join(_kinds_in_words(specs))
    return (
        f"{clean(specs.origin.directory)}: {counted(documents, 'document')} "
        f"in {counted(files, 'file')} {verb} valid ({kinds}).\n"
    )


def valid_json(specs: SpecSet) -> str:
    kinds = _kinds(specs)
    return _json(
        valid=True,
        directory=specs.origin.directory,
        commit=specs.origin.commit,
        digest=specs.digest,
        documents=len(specs.documents),
        files=_files(specs),
        kinds={kind: kinds[kind] for kind in _WORDS},
        problems=[],
    )


def invalid_json(directory: str, problems: Sequence[Problem]) -> str:
    return _json(
        valid=False,
        directory=directory,
        problems=[problem_data(each) for each in in_order(problems)],
    )


def _json(**content: object) -> str:
    document = {"formatVersion": FORMAT_VERSION, **content}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def problem_data(problem: Problem) -> dict[str, object]:
    """One problem as plain data."""
    return {
        "file": problem.place.file,
        "line": problem.place.line or None,
        "column": problem.place.column or None,
        "field": problem.field or None,
        "message": problem.message,
        "excerpt": problem.excerpt,
    }


def _kinds(specs: SpecSet) -> Counter[str]:
    return Counter(str(document["kind"]) for document in specs.documents)


def _kinds_in_words(specs: SpecSet) -> list[str]:
    kinds = _kinds(specs)
    return [
        f"{kinds[kind]} {one if kinds[kind] == 1 else many}"
        for kind, (one, many) in _WORDS.items()
        if kinds[kind]
    ]


def _files(specs: SpecSet) -> int:
    return len({document["file"] for document in specs.documents})
