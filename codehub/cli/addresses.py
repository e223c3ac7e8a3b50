"""Where a hub's pages are: as the settings say, or where `codehub up` serves them at the moment.

`up` notes its address in the data directory for as long as it runs; the port may be any.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codehub.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codehub.config import Settings
    from codehub.wiring import HubChoice

NOTE: Final = "address"
PATIENCE: Final = 3.0


@contextmanager
def noted(data: Path, port: int) -> Iterator[None]:
    """Others on this machine find the hub here, as long as the block lasts."""
    note = data / NOTE
    note.write_text(f"http://localhost:{port}\n")
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def hub_address(choice: HubChoice, settings: Settings) -> str:
    """The address of the hub's front page, without a slash. Raises NotFound where nobody serves."""
    if settings.proxy_public_url is not None:
        return settings.proxy_public_url.rstrip("/")
    if choice.embedded:
        with suppress(OSError):
            address = (choice.data / NOTE).read_text().strip()
            # What a killed one left behind is no address.
            if _is_served(address):
                return address
        raise NotFound(
            f"no 'codehub up' runs on {choice.data}",
            hint="start it, or set PROXY_PUBLIC_URL to the address that browsers use",
        )
    raise NotFound(
        "nobody says where this hub's pages are",
        hint="set PROXY_PUBLIC_URL to the address that browsers use",
    )


def known_address(hub: str | None, data: Path | None) -> str | None:
    """The address of this hub's front page, if anybody knows it; the hub must exist."""
    from codehub.cli.hubs import require_hub
    from codehub.config import load_settings

    with suppress(NotFound):
        return hub_address(require_hub(hub, data), load_settings())
    return None


def workspace_address(hub: str, name: str, settings: Settings) -> str:
    """A workspace's address: a host of its own where there is a domain, else one of the hub's."""
    domain = settings.proxy_workspace_domain
    if domain is None:
        return f"{hub}/w/{name}/"
    parts = urlsplit(hub)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{name}.{domain.lower()}{port}/"


def _is_served(address: str) -> bool:
    parts = urlsplit(address)
    with suppress(OSError, ValueError):
        where = ("127.0.0.1", parts.port or 80)
        socket.create_connection(where, timeout=PATIENCE).close()
        return True
    return False
