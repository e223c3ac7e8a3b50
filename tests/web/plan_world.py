"""Specs to send to a hub, in every way that they can be sent."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

from codehub.specs.pack import archive
from codehub.specs.unpack import read_gzip
from tests.integration.spec_files import document

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PLAN = "/api/v1/plan"
PEOPLE = "---\n".join(
    document("User", name, f"{{role: {role}}}")
    for name, role in (("ana", "member"), ("bob", "member"), ("root", "admin"))
)
SPECS = {
    "people.yaml": PEOPLE,
    "team/new.yaml": document("Workspace", "new", "{owner: ana, image: i}"),
    "bob.yaml": document("Workspace", "bob-archived", "{owner: bob, image: i}"),
}
"""Valid against the world of `web_world`; much of what is there is not in it."""


def as_json(files: Mapping[str, str]) -> dict[str, Any]:
    """For httpx: the files as JSON."""
    return {
        "content": json.dumps({"files": files}),
        "headers": {"Content-Type": "application/json"},
    }


def as_gzip(files: Mapping[str, str]) -> dict[str, Any]:
    packed = archive({path: text.encode() for path, text in files.items()})
    return {"content": packed, "headers": {"Content-Type": "application/gzip"}}


def as_tar(files: Mapping[str, str]) -> dict[str, Any]:
    packed = archive({path: text.encode() for path, text in files.items()})
    return tar_body(read_gzip(packed, 1 << 24))


def tar_body(whole: bytes) -> dict[str, Any]:
    return raw("application/x-tar", whole)


def raw(kind: str, content: bytes) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": kind}}


def link_in_a_tar() -> dict[str, Any]:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        link = tarfile.TarInfo("a.yaml")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return tar_body(whole.getvalue())


def write_files(root: Path, files: Mapping[str, str] = SPECS) -> Path:
    """The same files as a directory."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def without_time(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key != "madeAt"}
