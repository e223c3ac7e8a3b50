"""The output of workspaces for a web process: read through the runtimes of its own machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codehub.errors import Unreachable, Unsupported
from codehub.model.workspace import Runtime
from codehub.store.connect import connect
from codehub.store.hubs import read_hub_id
from codehub.wiring import WORKSPACES, runtime_to_look

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType

    from codehub.config import Settings
    from codehub.model.workspace import Workspace
    from codehub.ports import Runtime as RuntimePort
    from codehub.wiring import HubChoice


class Outputs:
    """Opens a runtime when somebody first asks for it, and keeps it; nothing there is changed."""

    def __init__(self, choice: HubChoice, settings: Settings, database_url: str) -> None:
        self._choice = choice
        self._settings = settings
        self._database_url = database_url
        self._hub_id: str | None = None
        self._runtimes: dict[Runtime, RuntimePort] = {}

    async def __aenter__(self) -> Outputs:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for runtime in self._runtimes.values():
            await runtime.close()

    async def read(
        self, workspace: Workspace, lines: int, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Its last lines, and with `follow` what comes. Raises Unreachable or Unsupported."""
        runtime = await self._runtime(workspace.declaration.runtime)
        await self._check(runtime, workspace)
        return _copy(runtime, workspace, lines, follow=follow)

    async def _runtime(self, kind: Runtime) -> RuntimePort:
        if kind not in self._runtimes:
            hub_id = await self._find_hub()
            runtime = runtime_to_look(self._choice, self._settings, kind, hub_id)
            if runtime is None:
                raise Unsupported(
                    f"it runs on {kind}, whose output this version cannot show",
                    hint=f"use the tools of {kind} on its machine",
                )
            self._runtimes.setdefault(kind, runtime)
        return self._runtimes[kind]

    async def _find_hub(self) -> str:
        if self._hub_id is None:
            async with await connect(self._database_url) as conn:
                found = await read_hub_id(conn)
            if found is None:
                raise Unreachable("no coordinator has set up this hub yet", hint="start one")
            self._hub_id = str(found)
        return self._hub_id

    async def _check(self, runtime: RuntimePort, workspace: Workspace) -> None:
        """Ask it something that it can only answer from where the workspace runs."""
        try:
            await runtime.upstream(workspace.id)
        except Unreachable as error:
            root = self._choice.data / WORKSPACES
            elsewhere = workspace.declaration.runtime is Runtime.PROCESS and not (
                await asyncio.to_thread(root.exists)
            )
            what = "it does not run on this machine" if elsewhere else error.message
            raise Unreachable(
                f"its output cannot be read from here: {what}",
                hint=f"use 'codehub logs {workspace.name}' where the coordinator runs",
            ) from error


async def _copy(
    runtime: RuntimePort, workspace: Workspace, lines: int, *, follow: bool
) -> AsyncGenerator[bytes, None]:
    async for chunk in runtime.logs(workspace.id, lines=lines, follow=follow):
        yield chunk
