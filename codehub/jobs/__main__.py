"""The job's process: arguments in, JSON lines and an exit code out."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Final

from codehub.adapters.stores import open_store
from codehub.core.keys import build_key
from codehub.core.seal import meta_fields
from codehub.errors import ArchiveCorrupted, CodeHubError, Unreachable
from codehub.jobs.archive import archive, archive_nothing
from codehub.jobs.arguments import STORE_URL, home_of, limits_of, parse, subject_of
from codehub.jobs.parent import end_with_parent
from codehub.jobs.progress import Progress
from codehub.jobs.restore import restore
from codehub.model.states import ErrorReason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from codehub.model.archive import ArchiveMeta

EXIT_CODES: Final = {
    ErrorReason.ACTION_FAILED: 10,
    ErrorReason.ARCHIVE_CORRUPTED: 11,
    ErrorReason.UNREACHABLE: 12,
}


def main(words: Sequence[str]) -> int:
    arguments = parse(words)
    end_with_parent()
    try:
        meta = _run(arguments, Progress(_report, time.monotonic))
    except CodeHubError as error:
        return _fail(_reason(error), error.message, error.hint)
    except BrokenPipeError:
        raise  # nobody reads us any more
    except Exception as error:
        traceback.print_exc()
        return _fail(ErrorReason.ACTION_FAILED, f"unexpected: {type(error).__name__}: {error}")
    _report({"event": "done"} | meta_fields(meta))
    return 0


def _run(arguments: argparse.Namespace, progress: Progress) -> ArchiveMeta:
    store = open_store(os.environ.get(STORE_URL, ""))
    if arguments.verb == "restore":
        key = build_key(arguments.key)
        return restore(store, home_of(arguments), key, progress, limits_of(arguments))
    subject = subject_of(arguments)
    if arguments.verb == "empty":
        return archive_nothing(store, arguments.key, subject, progress)
    return archive(store, home_of(arguments), arguments.key, subject, progress)


def _report(event: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _reason(error: CodeHubError) -> ErrorReason:
    if isinstance(error, ArchiveCorrupted):
        return ErrorReason.ARCHIVE_CORRUPTED
    if isinstance(error, Unreachable):
        return ErrorReason.UNREACHABLE
    return ErrorReason.ACTION_FAILED


def _fail(reason: ErrorReason, message: str, hint: str | None = None) -> int:
    _report({"event": "failed", "reason": reason.value, "message": message, "hint": hint})
    return EXIT_CODES[reason]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
