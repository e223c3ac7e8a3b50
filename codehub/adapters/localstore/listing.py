"""Walking the store in the order of its keys, as a bucket lists them, one directory at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codehub.adapters.localstore.writer import name_of_partial
from codehub.core.keys import is_part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def walk_objects(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Key and state of every object whose key begins with the prefix, in the order of keys."""
    for key, entry in _walk(root, "", prefix):
        if is_part(entry.name) and key.startswith(prefix):
            state = _state(entry)
            if state is not None:
                yield key, state


def walk_partials(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and state of every upload that was not committed, for keys with the prefix."""
    for path, entry in _walk(root, "", prefix):
        name = name_of_partial(entry.name)
        if name is not None and (path[: -len(entry.name)] + name).startswith(prefix):
            state = _state(entry)
            if state is not None:
                yield path, state


def _walk(folder: Path, base: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files below `folder`; directories that cannot hold the prefix are not entered."""
    for entry in _sorted(folder):
        path = base + entry.name
        if entry.is_file(follow_symlinks=False):
            yield path, entry
        elif entry.is_dir(follow_symlinks=False) and is_part(entry.name):
            below = path + "/"
            if below.startswith(prefix) or prefix.startswith(below):
                yield from _walk(folder / entry.name, below, prefix)


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    """Ordered as the keys are: a directory's name sorts with the slash that follows it."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=_place)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _place(entry: os.DirEntry[str]) -> str:
    return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    """None when it was deleted since the directory was read."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
