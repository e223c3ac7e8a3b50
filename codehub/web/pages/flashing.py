"""What has just been done, told on the page that follows.

It goes along in the address, as one of a few words and a workspace's name: nobody can make the hub
say anything else by sending somebody a link.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.render.dashboard import Flash

_SAID: Final = {
    "start": "{name} is being started.",
    "stop": "{name} is being stopped.",
    "archive": "{name} is being archived.",
    "restore": "{name} is being restored.",
    "recover": "The hub tries again to bring {name} up.",
    "recover-from-archive": "{name} is brought back from its last archive.",
    "recover-empty": "{name} starts with an empty home.",
    "delete": "{name} is being deleted.",
    "touch": "{name} counts as in use from now.",
    "revoked": "The token {name} is revoked.",
}


def flash_of(did: str, name: str) -> Flash | None:
    """What to tell, if the address asks for something that we say."""
    said = _SAID.get(did)
    if said is None or len(name) > NAME_LENGTH or not re.fullmatch(NAME_PATTERN, name):
        return None
    return Flash(said.format(name=name))


def with_flash(target: str, did: str, name: str) -> str:
    """The address to go on to, with what was done."""
    plain = without_flash(target)
    return f"{plain}{'&' if '?' in plain else '?'}{urlencode({'did': did, 'to': name})}"


def without_flash(target: str) -> str:
    """The address of a page as it is to be come back to."""
    path, _, query = target.partition("?")
    kept = "&".join(each for each in query.split("&") if each and not _is_ours(each))
    return f"{path}?{kept}" if kept else path


def _is_ours(field: str) -> bool:
    return field.partition("=")[0] in ("did", "to")
