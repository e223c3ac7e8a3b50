"""`python -m codehub.demo`: serve on 127.0.0.1:$PORT, below $CODEHUB_BASE_PATH, until SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from codehub.demo.server import Demo


def main() -> None:
    """Read the environment that a runtime gives every workspace, and serve."""
    demo = Demo(
        name=os.environ.get("CODEHUB_WORKSPACE", "demo"),
        home=Path.home(),
        base_path=os.environ.get("CODEHUB_BASE_PATH", "/"),
        started_at=datetime.now(UTC),
    )
    port = int(os.environ.get("PORT", "8080"))
    sys.stdout.write(f"{demo.name}: http://127.0.0.1:{port}/ keeps notes in {demo.home}\n")
    sys.stdout.flush()
    asyncio.run(_serve(demo, port))


async def _serve(demo: Demo, port: int) -> None:
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    server = await asyncio.start_server(demo.serve, "127.0.0.1", port, limit=2**16)
    await ended.wait()
    # Notes are written whole or not at all, so open connections need no goodbye.
    server.close()


if __name__ == "__main__":
    main()
