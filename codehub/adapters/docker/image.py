"""The image of a workspace: there already, or pulled from its registry.

A registry that says no (no such image, no access) is told apart from one that says nothing: the
first ends the start, the second is tried again. The engine passes a registry's words on as text.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import docker
from docker.auth import get_config_header, resolve_repository_name
from docker.types import CancellableStream
from docker.utils import parse_repository_tag

from codehub.adapters.docker.translate import Declined
from codehub.core.deadline import PULL, STAGE, START
from codehub.errors import ActionFailed, ImagePullFailed, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from codehub.adapters.docker.engine import Engine
    from codehub.adapters.docker.site import Site
    from codehub.errors import CodeHubError

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(
    rf"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
"""A registry, a path, a tag, a digest; all but the path may be missing."""

SILENCE: Final = 120.0
"""Seconds that a pull may say nothing; while it works it reports several times a second."""

_DENIED: Final = (
    *("pull access denied", "access to the resource is denied", "unauthorized"),
    *("authentication required", "no basic auth"),
)
_UNKNOWN: Final = ("manifest unknown", "name unknown", "no matching manifest")
_NO_ANSWER: Final = (
    *("dial tcp", "no such host", "connection refused", "connection reset", "timeout"),
    *("deadline exceeded", "tls handshake", "x509", "https client", "unreachable", "eof"),
    *("toomanyrequests", "too many requests", "request canceled", "proxyconnect"),
    *("internal server error", "bad gateway", "service unavailable"),
)
_NO_ACCESS: Final = ("denied", "forbidden")
_NO_IMAGE: Final = (
    *("not found", "invalid reference", "no such image", "does not exist", "invalid repository"),
)
_ADDRESS: Final = re.compile(r"[a-z]+://\S+")
_FOLDER: Final = r"[\w.-]+(?::\d+)?/"


def require_name(image: str | None) -> str:
    """The image's name, fit to be part of a request's path."""
    if image is None or not _NAME.fullmatch(image):
        raise _no_name(image)
    return image


async def pull_image(site: Site, workspace_id: UUID, image: str) -> Mapping[str, Any]:
    """Get the image from its registry, and what the engine knows of it then."""
    await _pull(site, workspace_id, image)
    found = await find_image(site.engine, image)
    if found is None:
        raise Unreachable(f"the pull of {image} ended without it")
    return found


async def find_image(engine: Engine, image: str) -> Mapping[str, Any] | None:
    """What the engine knows of the image; None where it must be pulled first."""
    try:
        found: Mapping[str, Any] | None = await engine.find(
            lambda client: client.inspect_image(image)
        )
    except Declined as error:
        raise _no_name(image) from error
    return found


async def _pull(site: Site, workspace_id: UUID, image: str) -> None:
    layers: dict[str, tuple[int, int]] = {}
    lines = site.engine.stream(lambda client: _begin(client, image), silence=SILENCE)
    site.report(workspace_id, {STAGE: PULL, **_count(layers, {})})
    try:
        async with aclosing(lines) as source:  # type: ignore[type-var]
            async for line in source:
                if "error" in line:
                    raise explain_pull(image, str(line["error"]))
                site.report(workspace_id, {STAGE: PULL, **_count(layers, line)})
    except Declined as error:
        raise explain_pull(image, error.words) from error
    # From here on the time limit of a start counts: by Postgres's clock, so no time is told.
    site.report(workspace_id, {STAGE: START, "bytes": 0, "total": 0})


def _begin(client: docker.APIClient, image: str) -> CancellableStream:
    """The SDK's own `pull` gives no way to end one, nor a limit to its silence."""
    repository, tag = parse_repository_tag(image)
    try:
        registry, _ = resolve_repository_name(repository)
    except docker.errors.DockerException as error:
        raise _no_name(image) from error
    header = get_config_header(client, registry)
    response = client._post(
        client._url("/images/create"),
        params={"fromImage": repository, "tag": tag or "latest"},
        headers={"X-Registry-Auth": header} if header else {},
        stream=True,
        timeout=SILENCE,
    )
    client._raise_for_status(response)
    return CancellableStream(client._stream_helper(response, decode=True), response)


def _count(layers: dict[str, tuple[int, int]], line: Mapping[str, Any]) -> dict[str, object]:
    """Bytes over all layers. Unpacking counts a layer once more, so only the download is added."""
    detail = line.get("progressDetail") or {}
    if line.get("status") == "Downloading" and "current" in detail:
        layers[str(line.get("id"))] = (int(detail["current"]), int(detail.get("total") or 0))
    return {
        "bytes": sum(current for current, _ in layers.values()),
        "total": sum(total for _, total in layers.values()),
    }


def _no_name(image: str | None) -> ImagePullFailed:
    return ImagePullFailed(f"{image!r} is not the name of an image", hint="correct the image")


def explain_pull(image: str, text: str) -> CodeHubError:
    """What a failed pull means; `text` is what the engine was told, or why it was told nothing."""
    words = " ".join(text.split())
    cause = _without_names(image, words.lower())
    for signs, explain in _MEANINGS:
        if any(each in cause for each in signs):
            return explain(image, words)
    return ActionFailed(f"the image {image} could not be pulled: {words}")


def _without_names(image: str, words: str) -> str:
    """What was said, without what it was said of: a name may hold any word, `geofence` an `eof`."""
    registry, path = resolve_repository_name(image.partition("@")[0])
    path = path.partition(":")[0]
    # A name of one word may be a word of the cause as well, so something must mark it as the name.
    before = rf"(?:{_FOLDER})*" if "/" in path else rf"(?:for |repository |(?:{_FOLDER})+)"
    name = rf"{before}{re.escape(path)}(?::[\w.-]+)?(?:@[\w:]+)?"
    words = _ADDRESS.sub(" ", words)
    for each in (name, re.escape(registry.lower())):
        words = re.sub(rf"(?<![\w.-]){each}(?![\w-])", " ", words)
    return words


def _no_answer(image: str, words: str) -> CodeHubError:
    return Unreachable(
        f"the registry of {image} gives no answer: {words}", hint="the hub tries again"
    )


def _no_access(image: str, words: str) -> CodeHubError:
    return ImagePullFailed(
        f"the image {image} does not exist, or the hub may not have it: {words}",
        hint="log the hub's user in to the registry, or correct the image",
    )


def _no_image(image: str, words: str) -> CodeHubError:
    return ImagePullFailed(f"the image {image} was not found: {words}", hint="correct the image")


_MEANINGS: Final = (
    (_DENIED, _no_access),
    (_UNKNOWN, _no_image),
    (_NO_ANSWER, _no_answer),
    (_NO_ACCESS, _no_access),
    (_NO_IMAGE, _no_image),
)
"""First match wins: what only a registry says, then what the way to it says, then what both may."""
