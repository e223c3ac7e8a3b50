"""Secrets by name: the files of one directory that the operator fills, and nothing beside it."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LARGEST: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def read_secrets(directory: Path | None, names: Mapping[str, str]) -> dict[str, str]:
    """The values for `secretEnv`: variable → value, from variable → name of the secret."""
    if not names:
        return {}
    if directory is None:
        wanted = ", ".join(sorted(set(names.values())))
        raise ActionFailed(
            f"this hub has no secrets directory, and the workspace needs: {wanted}",
            hint="set SECRETS_DIR to a directory with one file for each secret",
        )
    return {variable: _read(directory, name) for variable, name in names.items()}


def read_secret(directory: Path | None, name: str) -> str:
    """One secret by its name."""
    if directory is None:
        raise ActionFailed(
            f'this hub has no secrets directory, so there is no secret "{name}"',
            hint="set SECRETS_DIR to a directory with one file for each secret",
        )
    return _read(directory, name)


def _read(directory: Path, name: str) -> str:
    """One secret, without the newline that editors put at the end of a file."""
    if _NAME.fullmatch(name) is None:
        raise ActionFailed(f'"{name}" cannot be the name of a secret')
    try:
        content = _content(directory / name)
    except FileNotFoundError:
        raise ActionFailed(
            f'there is no secret "{name}"', hint=f"put it into a file of that name in {directory}"
        ) from None
    except OSError as error:
        raise ActionFailed(f'the secret "{name}" cannot be read: {error.strerror}') from None
    if content is None:
        raise ActionFailed(f'the secret "{name}" is not a file')
    if len(content) > LARGEST or b"\0" in content:
        raise ActionFailed(f'the secret "{name}" is too large or not a text')
    try:
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise ActionFailed(f'the secret "{name}" is not a text in UTF-8') from None


def _content(path: Path) -> bytes | None:
    """What is in it, a byte beyond the limit at most; None for what is no file.

    Opened without waiting: a pipe there would hold up the start for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = b""
        while len(content) <= LARGEST and (piece := os.read(descriptor, LARGEST + 1)):
            content += piece
        return content
    finally:
        os.close(descriptor)
