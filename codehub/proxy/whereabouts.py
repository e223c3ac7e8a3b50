"""Where browsers find the hub and its workspaces.

`hosts` says which names are ours; here are the addresses that pages and redirects lead to. They are
made of settings and of the Host that was asked for, which `hosts` has let through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codehub.proxy.hosts import LOCAL_DOMAIN
from codehub.render.pages import FORM_ACTION

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.proxy.hosts import Place
    from codehub.proxy.seam import RequestHead


def whereabouts_of(settings: Settings) -> Whereabouts:
    """As the settings say; on this machine's own names, workspaces have hosts below `localhost`."""
    url = settings.proxy_public_url
    local = LOCAL_DOMAIN if url is None else None
    return Whereabouts(url, settings.proxy_workspace_domain or local)


class Whereabouts:
    """`public_url` is where browsers find the hub; without it, where they asked for it.

    Workspaces have hosts of their own below `domain`, where there is one.
    """

    def __init__(self, public_url: str | None = None, domain: str | None = None) -> None:
        self._public = public_url.rstrip("/") if public_url else None
        self._domain = domain.lower().strip(".") if domain else None

    def hub(self, head: RequestHead, place: Place) -> str:
        """The hub's origin, as seen from this request."""
        if self._public is not None:
            parts = urlsplit(self._public)
            return f"{parts.scheme}://{parts.netloc}"
        if place.workspace is None:
            return f"{self._scheme(head)}://{_host(head)}"
        return f"{self._scheme(head)}://{LOCAL_DOMAIN}{self._port(head)}"

    def workspace(self, head: RequestHead, name: str) -> str:
        """A workspace's address: a path of the hub's, or a host of its own."""
        host = self.host(name)
        return f"{self._scheme(head)}://{host}{self._port(head)}/" if host else f"/w/{name}/"

    def host(self, name: str) -> str | None:
        """The name of a workspace's own host, without port; None where workspaces have none."""
        return f"{name}.{self._domain}" if self._domain is not None else None

    def forms(self, head: RequestHead) -> str:
        """What a policy must let forms reach: after a login, a redirect leads to a workspace."""
        if self._domain is None:
            return FORM_ACTION
        return f"{FORM_ACTION} {self._scheme(head)}://*.{self._domain}{self._port(head)}"

    def _scheme(self, head: RequestHead) -> str:
        if self._public is not None:
            return urlsplit(self._public).scheme
        return "https" if head.secure else "http"

    def _port(self, head: RequestHead) -> str:
        host = urlsplit(self._public).netloc if self._public is not None else _host(head)
        port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
        return f":{port}" if port else ""


def _host(head: RequestHead) -> str:
    return (head.get(b"host") or b"").decode("latin-1").lower()
