"""For those who watch the hub rather than use it: is it alive, is it ready, and its metrics."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from codehub.errors import NotFound, Unreachable
from codehub.store.clock import read_now
from codehub.telemetry.exposition import CONTENT_TYPE, render
from codehub.web.asking import TheHub
from codehub.web.who import Reader

PATIENCE: Final = 5.0
"""Seconds that the database may take to answer: whoever asks does not wait for ever."""

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthy() -> PlainTextResponse:
    """This process answers."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def ready(hub: TheHub) -> PlainTextResponse:
    """And so does the database."""
    try:
        async with asyncio.timeout(PATIENCE), hub.pool.connection() as conn:
            await read_now(conn)
    except TimeoutError:
        raise Unreachable(f"the database gave no answer within {PATIENCE:g} seconds") from None
    return PlainTextResponse("ready\n")


@router.get("/metrics")
async def metrics(caller: Reader) -> Response:
    """Of this process, for admins; for anybody else they are not there."""
    if not caller.person.is_admin:
        raise NotFound("there is no such address")
    return Response(render(), headers={"Content-Type": CONTENT_TYPE})
