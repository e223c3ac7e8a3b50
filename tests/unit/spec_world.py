"""Spec directories for tests of the reader: texts in, problems or a spec set out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.errors import SpecsInvalid
from codehub.specs.load import load_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codehub.model.problem import Problem
    from codehub.model.revision import SpecSet

ALICE = """\
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
"""
POLICY = """\
apiVersion: codehub.dev/v1
kind: TTLPolicy
metadata: {name: interactive}
spec: {standby: 3h, archive: 24h}
"""


def workspace(name: str = "api", spec: str = "  image: i\n", owner: str = "alice") -> str:
    """A workspace whose spec starts at line 6, with the owner first."""
    return (
        "apiVersion: codehub.dev/v1\n"
        "kind: Workspace\n"
        "metadata:\n"
        f"  name: {name}\n"
        "spec:\n"
        f"  owner: {owner}\n"
        f"{spec}"
    )


def hub(spec: str) -> str:
    return f"apiVersion: codehub.dev/v1\nkind: Hub\nmetadata: {{name: hub}}\nspec: {spec}\n"


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A directory with these files, and alice beside them."""
    for name, text in {"alice.yaml": ALICE, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def load(root: Path, *texts: str) -> SpecSet:
    """The spec set of alice and these texts, each a file of its own."""
    return load_directory(write(root, {f"f{n}.yaml": text for n, text in enumerate(texts)}))


def problems_in(root: Path) -> list[Problem]:
    """All problems of a directory; it must have some."""
    with pytest.raises(SpecsInvalid) as caught:
        load_directory(root)
    assert caught.value.problems
    return list(caught.value.problems)


def problems_of(root: Path, *texts: str | bytes) -> list[str]:
    """The problems of alice and these texts, with paths relative to the directory."""
    write(root, {f"f{n}.yaml": text for n, text in enumerate(texts)})
    return [str(each).replace(f"{root}/", "") for each in problems_in(root)]
