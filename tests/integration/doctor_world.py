"""A check-up of a hub that a test has made, and its text without what differs between machines."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.model.workspace import Runtime
from codehub.render.doctor_text import doctor_text
from codehub.service.checkup import Place, examine
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from tests.integration.stored import change, insert
from tests.make import workspace

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from syrupy.assertion import SnapshotAssertion

    from codehub.model.checkup import Finding

HUB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CHANGING = (
    (HUB_ID, "HUB"),
    (re.compile(r"[\d.]+ [KMGT]iB free"), "SIZE free"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"doctor/[0-9a-f]{16}"), "doctor/PROBE"),
    (re.compile(r"Docker [\d.]+\S*, API [\d.]+"), "Docker VERSION, API VERSION"),
)


class TextFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def text_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


def make_hub(url: str, **declared: Any) -> UUID:
    """A hub in this database, with one workspace; its id."""

    async def make() -> UUID:
        async with await connect(url) as conn:
            await insert(conn, workspace("api", **declared))
            return await ensure_hub_id(conn)

    return asyncio.run(make())


def record(url: str, **columns: object) -> None:
    """What the database shall know of the hub's one workspace."""

    async def write() -> None:
        async with await connect(url) as conn:
            await change(conn, "api", **columns)

    asyncio.run(write())


def make_docker_hub(url: str) -> UUID:
    return make_hub(url, runtime=Runtime.DOCKER, image="none:1")


def check_up(data: Path, archive_url: str = "", **fields: Any) -> tuple[Finding, ...]:
    """All findings of `codehub doctor`, made in this process."""
    url = archive_url or (data / "archives").as_uri()
    fields = {"embedded": False, "archives_are_new": not archive_url} | fields
    return asyncio.run(examine(Place(data=data, archive_url=url, **fields)))


def about(findings: tuple[Finding, ...], part: str) -> dict[str, Finding]:
    """Those whose name begins so."""
    return {each.name: each for each in findings if each.name.startswith(part)}


def readable(findings: dict[str, Finding], **instead: object) -> str:
    """As people read them, each on one line; `instead` names what to put for a changing part."""
    text = doctor_text(tuple(findings.values()))
    text = re.sub(r"\n +(?=[^ -]|-[^>])", " ", text)
    for placeholder, changing in instead.items():
        text = text.replace(str(changing), placeholder.upper())
    for pattern, placeholder in CHANGING:
        text = pattern.sub(placeholder, text)
    return re.sub(r" +-> ", "    -> ", text)
