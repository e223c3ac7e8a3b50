"""How the web application knows that a request comes through one of the hub's own proxies.

Both read the same key from the database. A request that shows it is believed in what it says of the
visitor's address, of TLS and of who was vouched for; every other one stands for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.service.minting import new_secret
from codehub.store.access import read_key

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

FRONT_HEADER: Final = b"x-codehub-front"
_KEY: Final = "front"


async def front_key(conn: AsyncConnection[DictRow]) -> str:
    """The key; it is made by whoever asks first."""
    return await read_key(conn, _KEY, new_secret())
