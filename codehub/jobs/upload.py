"""Getting a tar stream into the store, and making sure that it is there.

tar, the compressor's own threads, and hashing with writing all work at the same time. Few and
large pieces change hands, because on a busy machine every hand-over waits for its turn. Nothing
counts before the object was read back whole and its hash is that of what was sent.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import zstandard

from codehub.core.keys import build_key
from codehub.errors import ActionFailed, CodeHubError
from codehub.jobs.committed import write_meta
from codehub.jobs.pipeline import Stage
from codehub.jobs.readback import hash_object
from codehub.model.archive import ArchiveMeta, Fidelity

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.jobs.progress import Progress
    from codehub.model.archive import ArchiveKey, ArchiveSubject
    from codehub.ports import ObjectStore, ObjectWriter

_LEVEL: Final = 3
_THREADS: Final = min(len(os.sched_getaffinity(0)), 4)
"""As many as can work at once: more of them only stand in each other's way."""
_JOB_SIZE: Final = 24 * 1024 * 1024 // _THREADS
"""What a thread takes at a time. With less, more is looked at twice; all of it is held at once."""
_PIECE: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Packed:
    """What went into an archive."""

    unpacked_bytes: int
    entries: int
    skipped: int
    fidelity: Fidelity = Fidelity.FULL


@dataclass(frozen=True, slots=True)
class Sent:
    """What went to the store."""

    packed: Packed
    sha256: str
    bytes: int


def send(
    store: ObjectStore, key: str, fill: Callable[[Callable[[memoryview], None]], Packed]
) -> Sent:
    """Let `fill` put a tar stream, and store it compressed; on any error nothing is kept."""
    writer = store.open_writer(key)
    try:
        sent = _stream(writer, fill)
        writer.commit()
    except BaseException:
        with suppress(CodeHubError):
            writer.abort()
        raise
    return sent


def commit(
    store: ObjectStore,
    key: ArchiveKey,
    subject: ArchiveSubject,
    sent: Sent,
    progress: Progress,
) -> ArchiveMeta:
    """Verify what was sent, then write its commit marker."""
    name = build_key(key)
    progress.begin("verify", sent.bytes)
    _verify(store, name, sent, progress)
    meta = ArchiveMeta(
        key=name,
        sha256=sent.sha256,
        bytes=sent.bytes,
        unpacked_bytes=sent.packed.unpacked_bytes,
        entries=sent.packed.entries,
        skipped=sent.packed.skipped,
        hub=key.hub_id,
        workspace_id=key.workspace_id,
        workspace_name=subject.workspace_name,
        owner=subject.owner,
        generation=subject.generation,
        created_at=subject.created_at,
        fidelity=sent.packed.fidelity,
    )
    progress.begin("commit")
    write_meta(store, meta)
    return meta


def _stream(writer: ObjectWriter, fill: Callable[[Callable[[memoryview], None]], Packed]) -> Sent:
    digest = hashlib.sha256()
    size = 0

    def write(piece: bytes) -> None:
        nonlocal size
        digest.update(piece)
        writer.write(piece)
        size += len(piece)

    compressor = _compressor()
    with Stage[bytes](write) as writing:

        def compress(piece: memoryview) -> None:
            for out in compressor.compress(piece):
                writing.put(out)

        packed = fill(compress)
        for out in compressor.finish():  # type: ignore[no-untyped-call]
            writing.put(out)
        writing.close()
    return Sent(packed, digest.hexdigest(), size)


def _compressor() -> zstandard.ZstdCompressionChunker:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, threads=_THREADS, job_size=_JOB_SIZE, write_checksum=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).chunker(chunk_size=_PIECE)


def _verify(store: ObjectStore, key: str, sent: Sent, progress: Progress) -> None:
    info = store.head(key)
    if info is None or info.size != sent.bytes:
        raise _not_kept("its size differs" if info else "it is not there")
    entries = sent.packed.entries
    if hash_object(store, key, lambda size: progress.at(size, entries)) != sent.sha256:
        raise _not_kept("its bytes differ")


def _not_kept(why: str) -> ActionFailed:
    return ActionFailed(
        f"the archive store did not keep the archive as it was sent: {why}",
        hint="the volume is untouched; look after the store",
    )
