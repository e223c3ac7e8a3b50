"""`/assets/…`: the dashboard's style, script and icon, which browsers may keep for ever."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from codehub.errors import NotFound
from codehub.render.dashboard_assets import PREFIX, assets

router = APIRouter(include_in_schema=False)

_KEPT: Final = "public, max-age=31536000, immutable"


@router.get(PREFIX + "{name}")
async def asset(name: str) -> Response:
    """One of ours under its present name; there is nothing under an old one."""
    found = assets().get(PREFIX + name)
    if found is None:
        raise NotFound("there is no such file", hint="load the page again")
    return Response(found.content, media_type=found.kind, headers={"Cache-Control": _KEPT})
