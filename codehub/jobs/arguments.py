"""The command line of a job: how a parent writes it and how the job reads it, side by side."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from codehub.core.keys import build_key, parse_key
from codehub.jobs.restore import Limits
from codehub.model.archive import ArchiveSubject
from codehub.model.runtime import EngineCopy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.jobs.access import Home
    from codehub.model.archive import ArchiveKey

STORE_URL: Final = "CODEHUB_STORE_URL"
"""The environment variable with the store's address: it may hold a secret, so no argument."""

_USAGE: Final = 64


def archive_command(home: Home, key: ArchiveKey, subject: ArchiveSubject) -> list[str]:
    """A job that archives a home. Start it with a pipe as its standard input, and keep that."""
    return [*_program("archive"), *_home(home), *_subject(key, subject)]


def empty_command(key: ArchiveKey, subject: ArchiveSubject) -> list[str]:
    """A job that stores an empty archive."""
    return [*_program("empty"), *_subject(key, subject)]


def restore_command(home: Home, key: str, limits: Limits = Limits()) -> list[str]:  # noqa: B008
    """A job that restores an archive into a new, empty home."""
    command = [*_program("restore"), *_home(home), f"--key={key}"]
    if limits.sha256 is not None:
        command.append(f"--sha256={limits.sha256}")
    if limits.most_bytes is not None:
        command.append(f"--max-bytes={limits.most_bytes}")
    if limits.most_entries is not None:
        command.append(f"--max-entries={limits.most_entries}")
    return command


def parse(words: Sequence[str]) -> argparse.Namespace:
    """`verb`, `key` and what else the verb takes; a wrong command line ends the process."""
    parser = _Parser(prog="python -m codehub.jobs", description="Move a home to or from the store.")
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=_Parser)
    for verb in ("archive", "empty"):
        _add_subject(verbs.add_parser(verb))
    _add_home(verbs.choices["archive"])
    restoring = verbs.add_parser("restore")
    _add_home(restoring)
    restoring.add_argument("--key", type=_known, required=True)
    restoring.add_argument("--sha256")
    restoring.add_argument("--max-bytes", type=int)
    restoring.add_argument("--max-entries", type=int)
    arguments = parser.parse_args(words)
    if getattr(arguments, "engine", None) is not None and arguments.container is None:
        parser.error("an engine needs a container")
    return arguments


def subject_of(arguments: argparse.Namespace) -> ArchiveSubject:
    return ArchiveSubject(
        arguments.name, arguments.owner, arguments.generation, arguments.created_at
    )


def home_of(arguments: argparse.Namespace) -> Home:
    if arguments.volume is not None:
        return Path(arguments.volume)
    container, directory = arguments.container
    return EngineCopy(arguments.engine, container, directory)


def limits_of(arguments: argparse.Namespace) -> Limits:
    return Limits(arguments.sha256, arguments.max_bytes, arguments.max_entries)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def _program(verb: str) -> list[str]:
    return [sys.executable, "-m", "codehub.jobs", verb]


def _subject(key: ArchiveKey, subject: ArchiveSubject) -> list[str]:
    return [
        f"--key={build_key(key)}",
        f"--name={subject.workspace_name}",
        f"--owner={subject.owner}",
        f"--generation={subject.generation}",
        f"--created-at={subject.created_at.isoformat()}",
    ]


def _home(home: Home) -> list[str]:
    if isinstance(home, Path):
        return [f"--volume={home}"]
    return [f"--engine={home.base_url}", f"--container={home.container}:{home.directory}"]


def _add_home(parser: argparse.ArgumentParser) -> None:
    """A directory of this machine, or an engine and a directory in one of its containers."""
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--volume", type=_absolute)
    ways.add_argument("--engine")
    parser.add_argument("--container", type=_place)


def _add_subject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", type=_known, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--owner", required=True)
    parser.add_argument("--generation", type=int, required=True)
    parser.add_argument("--created-at", type=_moment, required=True)


def _absolute(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise argparse.ArgumentTypeError("the volume must be an absolute path")
    return path


def _place(text: str) -> tuple[str, str]:
    container, _, directory = text.partition(":")
    if not container or not directory.startswith("/"):
        raise argparse.ArgumentTypeError("not a container and a directory in it")
    return container, directory


def _known(text: str) -> ArchiveKey:
    key = parse_key(text)
    if key is None:
        raise argparse.ArgumentTypeError("not the key of an archive")
    return key


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError("a time needs its zone")
    return moment
