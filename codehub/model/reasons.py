"""What an ErrorReason means: words for people, who search with the code beside them."""

from __future__ import annotations

from typing import Final

from codehub.model.states import ErrorReason

WORDS: Final = {
    ErrorReason.TIMEOUT: "it took too long",
    ErrorReason.DATA_LOST: "its home is missing",
    ErrorReason.IMAGE_PULL_FAILED: "its image cannot be used",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "it runs without its home",
    ErrorReason.ARCHIVE_CORRUPTED: "its archive is damaged",
    ErrorReason.ACTION_FAILED: "it failed",
    ErrorReason.RETRY_EXCEEDED: "it failed several times",
    ErrorReason.UNREACHABLE: "something it needs does not answer",
}
"""For headings and before a message."""

MEANINGS: Final = {
    ErrorReason.TIMEOUT: "it took longer than it may",
    ErrorReason.DATA_LOST: "its home is gone, and no other one is put in its place by itself",
    ErrorReason.IMAGE_PULL_FAILED: "its image does not exist, or the hub may not have or use it",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "it runs, but its home is missing or not complete",
    ErrorReason.ARCHIVE_CORRUPTED: "its archive is not what was written",
    ErrorReason.RETRY_EXCEEDED: "it was tried several times and failed every time",
}
"""For those that wait for a person, at length."""
