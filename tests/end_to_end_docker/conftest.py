"""One engine, one image and one S3 server for all of these tests; each has its own hub there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.contract.docker_engine import busybox_image, engine_client, require_engine
from tests.contract.s3_faults import FaultyProxy
from tests.contract.s3_server import s3_server  # noqa: F401
from tests.end_to_end_docker.docker_hub import Ground

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.s3_server import S3Server


@pytest.fixture(scope="session")
def ground(
    s3_server: S3Server,  # noqa: F811
    postgres_url: str,
    migrated_template: str,
    redis_url: str,
) -> Iterator[Ground]:
    require_engine()
    with ExitStack() as stack:
        client = stack.enter_context(engine_client())
        image = stack.enter_context(busybox_image())
        yield Ground(client, image, s3_server, postgres_url, migrated_template, redis_url)


@pytest.fixture(scope="module")
def network(ground: Ground) -> Iterator[FaultyProxy]:
    """Between the hub and its bucket."""
    with FaultyProxy(ground.s3.url) as proxy:
        yield proxy
