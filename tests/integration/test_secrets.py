"""Secrets by name: one directory, nothing beside it, and a clear word when one is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from codehub.errors import ActionFailed
from codehub.service.secrets import LARGEST, read_secrets

if TYPE_CHECKING:
    from pathlib import Path


def test_a_secret_is_the_content_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "payments-token").write_text("s3cr3t\n")
    (tmp_path / "key.pem").write_text("line one\nline two\n\n")
    (tmp_path / "empty").touch()
    assert read_secrets(
        tmp_path, {"TOKEN": "payments-token", "KEY": "key.pem", "NONE": "empty"}
    ) == {"TOKEN": "s3cr3t", "KEY": "line one\nline two\n", "NONE": ""}


def test_one_secret_may_be_given_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("äöü")
    assert read_secrets(tmp_path, {"A": "token", "B": "token"}) == {"A": "äöü", "B": "äöü"}


def test_who_needs_none_needs_no_directory() -> None:
    assert read_secrets(None, {}) == {}


def test_a_hub_without_a_directory_says_what_is_needed() -> None:
    with pytest.raises(ActionFailed, match=r"no secrets directory.*: one, two") as caught:
        read_secrets(None, {"B": "two", "A": "one", "C": "one"})
    assert caught.value.hint is not None
    assert "SECRETS_DIR" in caught.value.hint


def test_a_missing_secret_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ActionFailed, match='there is no secret "token"') as caught:
        read_secrets(tmp_path, {"TOKEN": "token"})
    assert caught.value.hint == f"put it into a file of that name in {tmp_path}"


def test_a_missing_directory_is_a_missing_secret(tmp_path: Path) -> None:
    with pytest.raises(ActionFailed, match='there is no secret "token"'):
        read_secrets(tmp_path / "nowhere", {"TOKEN": "token"})


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../outside", "/etc/passwd", "a/b", ".hidden", "a\0b", "a b", "x" * 201]
)
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text("not for them")
    (tmp_path / "secrets").mkdir()
    with pytest.raises(ActionFailed, match="cannot be the name of a secret"):
        read_secrets(tmp_path / "secrets", {"TOKEN": name})


def test_what_is_no_text_is_refused_and_never_shown(tmp_path: Path) -> None:
    for name, content in {
        "binary": b"canary\0",
        "latin": b"canary \xe4",
        "huge": b"canary" + b"x" * LARGEST,
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ActionFailed, match=name) as caught:
            read_secrets(tmp_path, {"TOKEN": name})
        assert "canary" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_the_largest_secret_is_given_whole(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * LARGEST)
    assert read_secrets(tmp_path, {"A": "large"}) == {"A": "x" * LARGEST}


def test_a_directory_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    with pytest.raises(ActionFailed, match='the secret "token" is not a file'):
        read_secrets(tmp_path, {"TOKEN": "token"})


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    with pytest.raises(ActionFailed, match='the secret "token" is not a file'):
        read_secrets(tmp_path, {"TOKEN": "token"})
