"""A job that dies where it is told: runs one action of the local store up to a crash point."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codehub.adapters.localstore import LocalStore
from tests.contract.crash_points import obey
from tests.contract.store_contract import FAR_AHEAD

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(order: dict[str, Any]) -> Callable[[], None]:
    return partial(_act, LocalStore(Path(order["root"])), order)


def _act(store: LocalStore, order: dict[str, Any]) -> None:
    match order["action"]:
        case "claim":
            store.claim()
        case "write":
            writer = store.open_writer(order["key"])
            writer.write(order["data"].encode())
            writer.commit()
        case "delete":
            store.delete(order["key"])
        case "give up":
            store.abort_unfinished("", FAR_AHEAD)


if __name__ == "__main__":
    obey(prepare)
