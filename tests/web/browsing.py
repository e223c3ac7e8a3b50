"""Somebody at a browser without scripts: pages are looked at, and their forms are sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

from tests.web.web_world import ORIGIN

if TYPE_CHECKING:
    import httpx

NAVIGATION = {
    "Accept": "text/html,application/xhtml+xml",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "same-origin",
    "Origin": ORIGIN,
}


@dataclass(frozen=True)
class Seen:
    """A page as it came."""

    status: int
    text: str
    headers: httpx.Headers

    @property
    def words(self) -> str:
        """What one reads, without what is for machines."""
        body = self.text.partition("<body")[2] or self.text
        plain = re.sub(r"<[^>]*>", " ", body)
        return re.sub(r"\s+", " ", unescape(plain))

    @property
    def rows(self) -> list[str]:
        """The workspaces of the list, in their order."""
        return re.findall(r'<tr[^>]* data-row="([^"]*)"', self.text)

    def forms(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """Where the forms lead whose button says this, and what they send."""
        found = []
        for action, inside in re.findall(
            r'<form method="post" action="([^"]*)"[^>]*>(.*?)</form>', self.text, re.DOTALL
        ):
            button = inside.partition("<button")[2].partition(">")[2].partition("</button")[0]
            said = " ".join(re.sub(r"<[^>]*>", "", button).split())
            if said == label:
                tags = [tag for tag in re.findall(r"<input[^>]*>", inside) if _counts(tag)]
                found.append((unescape(action), dict(map(_field, tags))))
        return found


def _counts(tag: str) -> bool:
    return 'type="checkbox"' not in tag or " checked" in tag


def _field(tag: str) -> tuple[str, str]:
    name, value = (re.search(rf' {each}="([^"]*)"', tag) for each in ("name", "value"))
    assert name is not None
    return name[1], unescape(value[1]) if value else ""


async def look(client: httpx.AsyncClient, path: str) -> Seen:
    """Open a page."""
    answer = await client.get(path, headers=NAVIGATION)
    return Seen(answer.status_code, answer.text, answer.headers)


async def send(client: httpx.AsyncClient, path: str, **fields: str) -> Seen:
    """Send a form, with nothing in it but this: no header proves anything."""
    headers = {**NAVIGATION, "X-CSRF-Token": ""}
    answer = await client.post(path, data=fields, headers=headers)
    return Seen(answer.status_code, answer.text, answer.headers)


async def press(client: httpx.AsyncClient, page: Seen, label: str, **more: str) -> Seen:
    """Press the one button that says this."""
    ((action, fields),) = page.forms(label)
    return await send(client, action, **fields | more)


async def follow(client: httpx.AsyncClient, answer: Seen) -> Seen:
    """Go on to where a form led."""
    assert answer.status == 303, answer.text
    return await look(client, answer.headers["location"])
