"""Addresses of archive stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.adapters.stores import open_store
from codehub.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_address_opens_the_store_there(tmp_path: Path) -> None:
    LocalStore(tmp_path / "my archives").claim()
    store = open_store(f"file://{tmp_path}/my%20archives")
    store.open_writer("hub/one").commit()
    assert (tmp_path / "my archives/hub/one").is_file()


@pytest.mark.parametrize(
    "url",
    ["", "archives", "file://", "file:archives", "file://host/path", "file:///a?b", "ftp://x/y"],
)
def test_other_addresses_are_refused_with_an_example(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert "file:///" in (caught.value.hint or "")


def test_a_secret_in_an_address_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        open_store("other://user:canary@host/bucket")
    assert "canary" not in f"{caught.value} {caught.value.hint}"
