"""A program: one home to the store and back into another, as a hub without the superuser's rights.

    docker_copy_user.py HUB STORE WORKSPACE WORKSPACE

Prints what it found: the path it was given (none), and the fidelity of the archive.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from uuid import UUID

from codehub.adapters.docker import DockerRuntime
from codehub.jobs.mover import JobMover
from codehub.model.runtime import VolumeRef
from tests.integration.jobs import SUBJECT, new_key


async def main(hub: str, store: str, source: UUID, target: UUID) -> None:
    runtime, mover = DockerRuntime(hub), JobMover(f"file://{store}", os.environ)
    ref, back = VolumeRef(source, 1), VolumeRef(target, 1)
    path = await runtime.volume_path(ref)
    copy = await runtime.open_copy(ref)
    meta = await mover.archive(copy, new_key(), SUBJECT, lambda _: None)
    await runtime.close_copy(copy)
    copy = await runtime.open_copy(back)
    await mover.restore(copy, meta.key, meta.sha256, lambda _: None)
    await runtime.close_copy(copy)
    await runtime.close()
    sys.stdout.write(json.dumps({"path": path and str(path), "fidelity": meta.fidelity}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], UUID(sys.argv[3]), UUID(sys.argv[4])))
