"""Keys of archives, built and taken apart."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.keys import (
    archive_of,
    build_key,
    hub_prefix,
    marker_key,
    meta_key,
    operation_prefix,
    parse_key,
    require_key,
    require_prefix,
    workspace_prefix,
)
from codehub.errors import ActionFailed
from codehub.model.archive import ArchiveKey

HUB, WORKSPACE, OPERATION = UUID(int=1), UUID(int=2), UUID(int=3)
KEY = ArchiveKey(HUB, WORKSPACE, OPERATION, "7")
TEXT = f"{HUB}/{WORKSPACE}/{OPERATION}/7/home.tar.zst"


def test_a_key_names_hub_workspace_operation_and_attempt() -> None:
    assert build_key(KEY) == TEXT
    assert parse_key(TEXT) == KEY


@settings(max_examples=50)
@given(
    st.uuids(), st.uuids(), st.uuids(), st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True)
)
def test_every_key_comes_back_and_is_one_for_stores(
    hub: UUID, workspace: UUID, operation: UUID, attempt: str
) -> None:
    key = ArchiveKey(hub, workspace, operation, attempt)
    text = build_key(key)
    assert parse_key(text) == key
    assert require_key(meta_key(text)) == meta_key(text)


def test_the_commit_marker_lies_beside_its_archive() -> None:
    assert meta_key(TEXT) == TEXT + ".meta"
    assert archive_of(meta_key(TEXT)) == TEXT
    assert archive_of(TEXT) is None
    assert archive_of("other/file.meta") is None


def test_prefixes_hold_what_is_below_them_and_no_neighbour() -> None:
    assert TEXT.startswith(operation_prefix(HUB, WORKSPACE, OPERATION))
    assert operation_prefix(HUB, WORKSPACE, OPERATION).startswith(workspace_prefix(HUB, WORKSPACE))
    assert workspace_prefix(HUB, WORKSPACE).startswith(hub_prefix(HUB))
    assert all(
        prefix.endswith("/") and require_prefix(prefix)
        for prefix in (
            hub_prefix(HUB),
            workspace_prefix(HUB, WORKSPACE),
            operation_prefix(HUB, WORKSPACE, OPERATION),
        )
    )


def test_the_marker_is_the_hubs_and_no_archive() -> None:
    assert require_key(marker_key(HUB)).startswith(hub_prefix(HUB))
    assert parse_key(marker_key(HUB)) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "home.tar.zst",
        TEXT + "/more",
        TEXT + ".meta",
        TEXT.replace("/7/", "/../"),
        TEXT.replace("/7/", "//"),
        TEXT.replace("/7/", "/A/"),
        TEXT.replace(str(HUB), str(HUB).replace("-", "")),
        TEXT.replace(str(WORKSPACE), "{" + str(WORKSPACE) + "}"),
        TEXT.replace("home.tar.zst", "home.tar.gz"),
    ],
)
def test_other_keys_are_no_archives(text: str) -> None:
    assert parse_key(text) is None


@pytest.mark.parametrize("attempt", ["", "..", "A", "a/b", "-", "a" * 65, "a.b"])
def test_an_attempt_cannot_lead_elsewhere(attempt: str) -> None:
    with pytest.raises(ActionFailed, match="attempt"):
        build_key(ArchiveKey(HUB, WORKSPACE, OPERATION, attempt))
