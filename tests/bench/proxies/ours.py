"""Our proxy as a process of its own, with a gate of the bench's choice.

python -m tests.bench.proxies.ours PORT UPSTREAM_PORT GATE FRONT_FILE

How a request must look to get through is written to the file, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from codehub.proxy.server import Server, new_event_loop
from codehub.proxy.wire_limits import WireLimits
from tests.bench.proxies.gates import Front, find_gate

MANY = 100_000


async def serve(port: int, upstream: int, gate: str, front_file: Path) -> None:
    limits = WireLimits(connections=MANY, connections_per_address=MANY, upstream_connections=MANY)
    async with find_gate(gate)(upstream) as front:
        _tell(front, front_file)
        server = Server(front.gate, limits)
        await server.start("127.0.0.1", port)
        await asyncio.Event().wait()


def _tell(front: Front, front_file: Path) -> None:
    front_file.write_text(json.dumps({"prefix": front.prefix, "headers": front.headers}))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])))
