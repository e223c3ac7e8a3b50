"""Logging: one set-up for every process, and what each line carries.

Code logs with the standard library (`log.info("… %s", x)`), libraries do too, and all of it goes
through the same processors. Where work begins, `bound` names it: every line within, whoever writes
it, then has the workspace, operation, op_id, revision and request_id: as fields of their own for
machines, at the end of the line for people.
"""

from __future__ import annotations

import logging
import re
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Literal

import structlog
from structlog.contextvars import bound_contextvars, get_contextvars, merge_contextvars
from structlog.stdlib import ProcessorFormatter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import TextIO

    from structlog.typing import EventDict, Processor

LogFormat = Literal["console", "json"]

FIELDS: Final = ("workspace", "operation", "op_id", "revision", "request_id")
"""What lines may carry beside their text."""
HANDLER: Final = "codehub"
_OP_ID_LENGTH: Final = 8
"""As much of an op_id as people need to tell one operation from another."""

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._=+/-]{1,64}")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_SECRETS: Final = (
    (re.compile(r"(://[^/\s:@]*:)[^\s@/]+@"), r"\1***@"),
    (re.compile(r"\b((?:password|passwd|secret|token)\s*=\s*)[^\s&;,]+", re.IGNORECASE), r"\1***"),
    (re.compile(r"([?&]code=)[^\s&]+"), r"\1***"),
    (re.compile(r"\b(Bearer\s+|chub_)[A-Za-z0-9._~+/=-]+"), r"\1***"),
)
_QUIET: Final = {
    # Its worker tells of every refused connection while the database is away; the leader does too.
    "psycopg.pool": logging.ERROR,
    "watchfiles": logging.WARNING,
}


def set_up(stream: TextIO, *, form: LogFormat = "console", level: int = logging.INFO) -> None:
    """Log to `stream` from now on: ours from `level`, libraries' from WARNING."""
    handler = logging.StreamHandler(stream)
    handler.set_name(HANDLER)
    handler.setFormatter(_formatter(form))
    root = logging.getLogger()
    for former in [each for each in root.handlers if each.get_name() == HANDLER]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("codehub").setLevel(level)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(least)
    structlog.configure(
        processors=[*_before(form), ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def bound(**fields: object) -> AbstractContextManager[None]:
    """Every line within carries these; those that are None are left out."""
    return bound_contextvars(
        **{key: _plain(each) for key, each in fields.items() if each is not None}
    )


def request_id(given: bytes | None = None) -> str:
    """What to call a request: as whoever stands in front does, or by a name of its own."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return token_hex(8)


def this_request() -> str | None:
    """What the request is called that is being answered here; None outside of any."""
    named: str | None = get_contextvars().get("request_id")
    return named


def _plain(value: object) -> object:
    return value if isinstance(value, int | str) else str(value)


def _formatter(form: LogFormat) -> logging.Formatter:
    last: list[Processor] = [structlog.processors.JSONRenderer(ensure_ascii=False)]
    if form == "console":
        last = [_console]
    return ProcessorFormatter(
        foreign_pre_chain=_before(form),
        processors=[
            ProcessorFormatter.remove_processors_meta,
            # A traceback as text: one with the values of variables would tell secrets.
            structlog.processors.format_exc_info,
            _mask,
            *last,
        ],
    )


def _before(form: LogFormat) -> list[Processor]:
    stamp: Callable[..., Any] = structlog.processors.TimeStamper("iso", utc=True, key="time")
    if form == "console":
        stamp = structlog.processors.TimeStamper("%H:%M:%S", utc=False, key="time")
    return [
        merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        stamp,
    ]


def _mask(_logger: object, _method: str, event: EventDict) -> EventDict:
    """What looks like a secret does not get into a log, whoever put it into an error's text."""
    for key, value in event.items():
        if isinstance(value, str):
            for pattern, shown in _SECRETS:
                value = pattern.sub(shown, value)
            event[key] = value
    return event


def _console(_logger: object, _method: str, event: EventDict) -> str:
    """One short line for people: the text, and of its fields what the text does not say."""
    text = str(event["event"])
    said = _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text + _unsaid(event, text))
    line = f"{event['time']} {event['level'].upper()} {event['logger']}: {said}"
    return f"{line}\n{event['exception']}" if event.get("exception") else line


def _unsaid(event: EventDict, text: str) -> str:
    told = {key: str(event[key]) for key in FIELDS if key in event}
    if "op_id" in told:
        told["op_id"] = told["op_id"][:_OP_ID_LENGTH]
    return "".join(f" {key}={each}" for key, each in told.items() if not _says(text, key, each))


def _says(text: str, key: str, value: str) -> bool:
    """As a word of its own: `api` is not said by `api-2`, and a bare number may be of anything."""
    word = f"revision {value}" if key == "revision" else value
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None
