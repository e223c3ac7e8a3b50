"""The SDK's errors into ours: which of them are an answer, and which mean that nobody knows.

While looking, only "there is no such thing" and "that is no name" are answers. While acting, the
engine says no with almost any status, so everything it says counts, unless it says that it is
itself in trouble.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from docker.errors import APIError, DockerException
from urllib3.exceptions import HTTPError

from codehub.adapters.words import without
from codehub.errors import ActionFailed, CodeHubError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

FOREIGN: Final = (DockerException, HTTPError, OSError, ValueError)
"""What the SDK raises: its own errors, urllib3's, requests' (which are OSErrors), bad JSON."""

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_UNAVAILABLE: Final = 503

_TROUBLE: Final = (
    "context deadline exceeded",
    "context canceled",
    "transport is closing",
    "connection is closing",
    "containerd.sock",
    "shutting down",
    "code = unavailable",
    "client version",
)
_HINTS: Final = (
    ("permission denied", "the hub's user must be allowed to use the engine's socket"),
    ("no such file", "is the Docker engine running?"),
    ("connection refused", "is the Docker engine running?"),
)


class Declined(ActionFailed):
    """The engine answered no, with this status and these words."""

    def __init__(self, status: int, words: str) -> None:
        self.words = words
        self.status = status
        full = "no space left on device" in words.lower()
        super().__init__(
            "the engine's disk is full" if full else f"the Docker engine refused: {words}",
            hint="make room there" if full else None,
        )

    def hide(self, secrets: Iterable[str]) -> None:
        """Take these values out of everything it says."""
        self.words, self.message = without(self.words, secrets), without(self.message, secrets)
        self.args = (self.message,)


def explain_look(error: Exception) -> CodeHubError:
    """Nothing was learned, unless the engine says that there is no such thing or no such name."""
    if not isinstance(error, APIError) or is_trouble(error):
        return _unknown(error)
    told = error.status_code in (BAD_REQUEST, NOT_FOUND)
    return _declined(error) if told else _unknown(error)


def explain_act(error: Exception) -> CodeHubError:
    """What the engine's answer means for what was asked of it."""
    if not isinstance(error, APIError) or error.status_code is None or is_trouble(error):
        return _unknown(error)
    return _declined(error)


def explain_answer(status: int, words: str) -> CodeHubError:
    """The same, for those who ask the engine without the SDK."""
    text = " ".join(words.split())
    if _is_trouble(status, text):
        return Unreachable(f"the Docker engine cannot be reached: {text}")
    return Declined(status, text)


def is_trouble(error: APIError) -> bool:
    """Whether the engine speaks of itself and not of what it was asked for.

    It calls itself unavailable, or is another version than the one these calls were made for.
    """
    return _is_trouble(error.status_code, said(error))


def said(error: Exception) -> str:
    """The engine's own words, on one line."""
    words = error.explanation if isinstance(error, APIError) else None
    return " ".join(str(words or error).split())


def _is_trouble(status: int | None, words: str) -> bool:
    return status == _UNAVAILABLE or any(each in words.lower() for each in _TROUBLE)


def _declined(error: APIError) -> Declined:
    return Declined(int(error.status_code), said(error))


def _unknown(error: Exception) -> Unreachable:
    text = said(error)
    hint = next((hint for word, hint in _HINTS if word in text.lower()), None)
    if "timed out" in text.lower():
        return Unreachable("the Docker engine did not answer in time", hint=hint)
    return Unreachable(f"the Docker engine cannot be reached: {text}", hint=hint)
