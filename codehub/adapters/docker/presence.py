"""Whether an engine is there that can be used, asked before anything is built on it."""

from __future__ import annotations

from typing import Final

from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.numbering import require_own_numbers
from codehub.errors import CodeHubError

PATIENCE: Final = 3.0


async def trouble(base_url: str | None) -> CodeHubError | None:
    """What keeps us from using the engine; None when it answers and can keep homes."""
    engine = Engine(base_url, look_seconds=PATIENCE, act_seconds=PATIENCE)
    try:
        await engine.look(lambda client: client.ping())
        await require_own_numbers(engine)
    except CodeHubError as error:
        return error
    finally:
        engine.close()
    return None
