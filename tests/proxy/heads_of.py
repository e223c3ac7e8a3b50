"""Heads of requests as browsers and programs send them."""

from __future__ import annotations

from codehub.proxy.seam import RequestHead

HOST = "localhost:8080"
PEER = "192.0.2.1"
ORIGIN = f"http://{HOST}"
VISIT = {
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-User": "?1",
    "Sec-Fetch-Site": "none",
}
"""Somebody opens a page in a browser."""
RELOAD = {name: value for name, value in VISIT.items() if name != "Sec-Fetch-User"} | {
    "Sec-Fetch-Site": "same-origin"
}
"""A page that loads itself anew."""
FETCH = {
    "Accept": "*/*",
    "Sec-Fetch-Mode": "cors",
    "Sec-Fetch-Dest": "empty",
    "Sec-Fetch-Site": "same-origin",
}
"""A script of a page asks."""
SOCKET = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "Origin": ORIGIN,
    "Sec-Fetch-Mode": "websocket",
}
"""A page opens a WebSocket."""


def head(
    target: str = "/w/api/",
    headers: dict[str, str] | None = None,
    *,
    method: str = "GET",
    host: str | None = HOST,
    cookie: str | None = None,
    bearer: str | None = None,
    secure: bool = False,
    peer: str = PEER,
) -> RequestHead:
    """A request; `cookie` is a session's secret, `bearer` a token."""
    named = dict(headers or {})
    if host is not None:
        named = {"Host": host} | named
    if cookie is not None:
        name = "__Host-codehub" if secure else "codehub"
        named["Cookie"] = f"{name}={cookie}"
    if bearer is not None:
        named["Authorization"] = f"Bearer {bearer}"
    listed = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
    return RequestHead(method.encode(), target.encode("latin-1"), listed, peer, secure)
