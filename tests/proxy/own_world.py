"""The hub's own addresses over a real database, and a small browser that uses them.

The browser keeps cookies by host and path, finds the forms of a page and sends them with the
headers that browsers send. There is no wire in between.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

from codehub.config import Settings
from codehub.proxy.credentials import Trust
from codehub.proxy.gate import Front
from codehub.proxy.hosts import Hosts
from codehub.proxy.identity import Identities
from codehub.proxy.own import Own
from codehub.proxy.seam import Answer, Ask, RequestHead
from codehub.store.connect import connect
from tests.auth.people import PATIENT, fill, open_hub
from tests.integration.stored import insert

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from tests.auth.people import Hub

HUB_ORIGIN = "http://localhost:8080"


class Found(HTMLParser):
    """The forms and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []
        self.links: dict[str, str] = {}
        self._open: str | None = None
        self._words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.forms.append({"action": given["action"], "fields": {}, "label": ""})
        elif tag == "input" and self.forms:
            self.forms[-1]["fields"][given.get("name")] = given.get("value") or ""
        elif tag in ("button", "a"):
            self._words, self._open = "", given.get("href") or tag

    def handle_data(self, data: str) -> None:
        self._words += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "button":
            self.forms[-1]["label"] = " ".join(self._words.split())
        elif tag == "a" and self._open:
            self.links[" ".join(self._words.split())] = self._open


@dataclass
class Page:
    """What a browser shows."""

    url: str
    answer: Answer
    text: str

    @property
    def status(self) -> int:
        return int(self.answer.status)

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.answer.headers}

    @property
    def forms(self) -> dict[str, dict[str, Any]]:
        """By what stands on their buttons."""
        return {each["label"]: each for each in Found(self.text).forms}

    @property
    def links(self) -> dict[str, str]:
        return Found(self.text).links


@dataclass
class World:
    own: Own
    hub: Hub
    conn: AsyncConnection[DictRow]
    identities: Identities
    front: Front

    async def add(self, *rows: Workspace) -> None:
        await insert(self.conn, *rows)
        # Rows bring their owners along, without passwords.
        await fill(self.hub)

    async def answer(self, head: RequestHead, body: bytes = b"") -> Answer | None:
        """As the gate would have it; None for an address that is not ours."""
        place = self.front.hosts.place(head.get(b"host"))
        assert place is not None
        identity = await self.identities.look_up(head, place.host)
        verdict = self.own.judge(head, identity, place)
        if isinstance(verdict, Ask):
            assert len(body) <= verdict.most or not body
            result = await verdict.handle(body)
            assert isinstance(result, Answer)
            return result
        assert verdict is None or isinstance(verdict, Answer)
        return verdict

    def browser(self, **more: Any) -> Browser:
        return Browser(self, **more)

    async def somebody(self, name: str = "alice", password: str | None = None) -> Browser:
        """A browser in which somebody is logged in."""
        given = {"alice": "correct horse battery", "bob": "another password"}
        browser = self.browser()
        page = await browser.open("/login")
        page = await browser.send(page, "Log in", name=name, password=password or given[name])
        assert page.status == 303, page.text
        return browser


@dataclass
class Browser:
    """One person's browser."""

    world: World
    agent: str = "Firefox"
    peer: str = "192.0.2.7"
    secure: bool = False
    at: str = HUB_ORIGIN + "/"
    jar: dict[tuple[str, str, str], str] = field(default_factory=dict)

    async def open(self, address: str, *, hops: int = 0, **headers: str) -> Page:
        """Go somewhere, as if somebody clicked, and follow so many redirects."""
        url = urljoin(self.at, address)
        page = await self._ask("GET", url, b"", {"Sec-Fetch-User": "?1", **headers})
        for _ in range(hops):
            page = await self._ask("GET", urljoin(page.url, page.headers["location"]), b"", {})
        return page

    async def send(
        self, page: Page, label: str, headers: dict[str, str] | None = None, **fields: Any
    ) -> Page:
        """Press a button of a page."""
        form = page.forms[label]
        content = urlencode({**form["fields"], **fields}).encode()
        url = urljoin(page.url, form["action"])
        parts = urlsplit(page.url)
        said = {
            "Origin": f"{parts.scheme}://{parts.netloc}",
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
            **(headers or {}),
        }
        return await self._ask("POST", url, content, {k: v for k, v in said.items() if v})

    async def _ask(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> Page:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        given = {
            "Host": parts.netloc,
            "Accept": "text/html,*/*;q=0.8",
            "User-Agent": self.agent,
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
            **headers,
        }
        cookies = self._cookies(parts.hostname or "", parts.path)
        if cookies:
            given["Cookie"] = cookies
        listed = [(name.encode(), value.encode()) for name, value in given.items()]
        head = RequestHead(method.encode(), target.encode(), listed, self.peer, self.secure)
        answer = await self.world.answer(head, body)
        assert answer is not None, f"{target} is not ours"
        self._keep(parts.hostname or "", answer)
        self.at = url
        return Page(url, answer, answer.body.decode() if isinstance(answer.body, bytes) else "")

    def _cookies(self, host: str, path: str) -> str:
        fits = [(n, v) for (h, p, n), v in self.jar.items() if h == host and path.startswith(p)]
        return "; ".join(f"{name}={value}" for name, value in fits)

    def _keep(self, host: str, answer: Answer) -> None:
        for name, value in answer.headers:
            if name.lower() != b"set-cookie":
                continue
            ((key, morsel),) = SimpleCookie(value.decode()).items()
            place = (host, morsel["path"], key)
            if int(morsel["max-age"]) <= 0:
                self.jar.pop(place, None)
            else:
                self.jar[place] = morsel.value


def request(
    method: str, target: str, *headers: tuple[str, str], host: str = "localhost:8080"
) -> RequestHead:
    """A program's request."""
    listed = [("Host", host), *headers]
    return RequestHead(
        method.encode(), target.encode(), [(n.encode(), v.encode()) for n, v in listed], "192.0.2.7"
    )


async def read(body: object, count: int) -> list[bytes]:
    """The first pieces of a body that comes piece by piece."""
    pieces: list[bytes] = []
    assert hasattr(body, "__aiter__")
    async for piece in body:
        pieces.append(piece)
        if len(pieces) == count:
            break
    await body.aclose()  # type: ignore[attr-defined]
    return pieces


@asynccontextmanager
async def own_world(url: str, **settings: Any) -> AsyncIterator[World]:
    """Users alice (a member), bob (an admin) and carol, who has no password."""
    chosen = Settings(**settings)
    domain = chosen.proxy_workspace_domain or ("localhost" if not chosen.proxy_public_url else None)
    front = Front(Hosts(chosen.proxy_public_url, domain), Trust())
    async with open_hub(url) as hub, await connect(url) as conn:
        await fill(hub)
        identities = Identities(hub.pool, url)
        own = Own(
            hub.pool, chosen, front, passwords=hub.passwords, hold=identities.hold, paces=PATIENT
        )
        world = World(own, hub, conn, identities, front)
        try:
            yield world
        finally:
            own.drain()
