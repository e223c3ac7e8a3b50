"""Fingerprints of meaning: equal exactly when two specs ask for the same.

They are taken of resolved values, so comments, layout, file names, the order of documents and
defaults written out make no difference. `Source`, the place in the files, never counts.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.people import Hub, TtlPolicy, User
    from codehub.model.workspace import Declaration


def digest_documents(
    workspaces: Mapping[str, Declaration],
    users: Mapping[str, User],
    policies: Mapping[str, TtlPolicy],
    hub: Hub,
) -> str:
    """The digest of a whole spec set."""
    return _digest(
        {"workspaces": workspaces, "users": users, "policies": policies, "hub": hub},
    )


def template_digest(declaration: Declaration) -> str:
    """The digest of what a container is made of: a change takes a new container to show."""
    return _digest(
        {
            "runtime": declaration.runtime,
            "image": declaration.image,
            "command": declaration.command,
            "env": declaration.env,
            "secretEnv": declaration.secret_env,
            "port": declaration.port,
            "resources": declaration.resources,
        }
    )


def _digest(meaning: Mapping[str, object]) -> str:
    text = json.dumps(meaning, default=_plain, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def _plain(value: Any) -> object:
    return {name: getattr(value, name) for name in _names(value.__class__)}


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "source")
