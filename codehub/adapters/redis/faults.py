"""What Redis and its client raise, in our words. Neither a password nor a user is ever shown."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from redis.exceptions import ConnectionError, RedisError

from codehub.cancelling import cancellations, heed
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED: Final = "EVAL, ZADD, ZREM, ZSCORE, ZRANGE, GET, SET, TIME, INFO, PUBLISH and SUBSCRIBE"
MEANINGS: Final = (
    ("Authentication required", "wants a password", "give one in REDIS_URL: redis://:password@…"),
    ("without any password", "wants no password", "take the password out of REDIS_URL"),
    ("AuthenticationError", "refused the password", "check it in REDIS_URL"),
    ("has no permissions", "does not let its user do that", f"its ACL must allow {NEEDED}"),
    ("can't run this command", "does not let its user do that", f"its ACL must allow {NEEDED}"),
    ("against a read only", "is a read-only replica", "set REDIS_URL to the primary server"),
    ("Link with MASTER is down", "is a replica without primary", "set REDIS_URL to the primary"),
    ("when used memory", "is out of memory", "raise its maxmemory, or give the hub its own Redis"),
    ("is loading the dataset", "is still loading its data", "it answers when it is done; wait"),
    ("MISCONF", "cannot save to its disk and takes no writes", "make room on its disk"),
    ("BUSY", "is busy with somebody's script", "wait, or end that with SCRIPT KILL"),
    ("max number of clients", "has no connection left", "raise its maxclients, or stop others"),
    ("in protected mode", "takes no connection from here", "give it a password, see its manual"),
    ("MOVED", "is part of a cluster", "set REDIS_URL to one that stands alone"),
    ("MovedError", "is part of a cluster", "set REDIS_URL to one that stands alone"),
    ("hash to the same slot", "is part of a cluster", "set REDIS_URL to one that stands alone"),
    ("WRONGTYPE", "has another's data under our keys", "choose another database in REDIS_URL"),
    ("syntax error", "is older than 6.2", "use Redis 6.2 or newer"),
    ("Protocol Error", "does not speak Redis's protocol", "check the address in REDIS_URL"),
)
"""What is said, and what it means. Codes in front are cut off by some clients and servers."""


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turns what goes wrong with Redis at this address into `Unreachable`."""
    since = cancellations()
    try:
        yield
    except (RedisError, OSError) as error:
        heed(since)
        raise unreachable(error, url) from error
    heed(since)


def unreachable(error: BaseException, url: str) -> Unreachable:
    """Why Redis was no use, told apart by what it or the network said."""
    where = redacted(url)
    said = "\n".join(f"{type(each).__name__}: {each}" for each in chain(error))
    for phrase, what, hint in MEANINGS:
        if phrase in said:
            return Unreachable(f"Redis at {where} {what}", hint=hint)
    if isinstance(error, ConnectionError) or _timed_out(error):
        return Unreachable(
            f"no Redis answers at {where} ({_reason(error)})", hint="start it, or correct REDIS_URL"
        )
    return Unreachable(f"Redis at {where} refuses: {_words(error)}", hint="see its log")


def is_lost_connection(error: RedisError) -> bool:
    """Whether the connection ended, and nobody said why: it may have been an old one."""
    known = [each for each in chain(error) if isinstance(each, RedisError)]
    return all(type(each) is ConnectionError for each in known)


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it: the client wraps some of its own errors in others."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def redacted(url: str) -> str:
    """An address to show: host, port and database, or the socket; no user, password or option.

    A password that was not quoted may end up in any other part, so only what is plain is shown.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(an address that cannot be read)"
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    database = parts.path if parts.path[1:].isdigit() else ""
    host = f"{parts.hostname}{port}" if parts.hostname else "localhost"
    return f"{parts.scheme}://{host}{database}"


def _timed_out(error: BaseException) -> bool:
    return any("TimeoutError" in type(each).__name__ for each in chain(error))


def _reason(error: BaseException) -> str:
    if _timed_out(error):
        return "no answer in time"
    reasons = (_system_words(each) for each in chain(error) if isinstance(each, OSError))
    return next((each for each in reasons if each), "the connection ended")


def _system_words(error: OSError) -> str | None:
    """asyncio puts words of its own in place of the system's."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror


def _words(error: BaseException) -> str:
    """The first line without the arguments it quotes, which may be anything."""
    return str(error).partition("\n")[0].partition(", with args")[0]
