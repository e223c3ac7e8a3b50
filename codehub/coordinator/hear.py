"""What a workspace said last: for the message of a failure that no act could tell more of.

A start that fails tells it by itself. One that answered and ended later, or that never answered,
is found by a pass, which asks here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codehub.adapters.words import last_words
from codehub.errors import CodeHubError
from codehub.service.secrets import read_secrets

if TYPE_CHECKING:
    from codehub.coordinator.steps import Tools
    from codehub.model.workspace import Workspace

PATIENCE: Final = 2.0
"""Seconds; others wait for the pass meanwhile."""
_LINES: Final = 20


async def hear(tools: Tools, workspace: Workspace) -> str:
    """One short line; empty where nobody can say. Values of its environment may be secrets."""
    declared = workspace.declaration
    try:
        async with asyncio.timeout(PATIENCE):
            secrets = await asyncio.to_thread(read_secrets, tools.secrets, declared.secret_env)
            pieces = tools.runtime(workspace).logs(workspace.id, lines=_LINES, follow=False)
            output = b"".join([each async for each in pieces])
    except (CodeHubError, TimeoutError):
        return ""
    return last_words(output, hide=(*declared.env.values(), *secrets.values()))
