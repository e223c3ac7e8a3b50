"""`codehub up`: everything on this machine, in one process tree."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from codehub.cli.options import DataOption


class RuntimeChoice(StrEnum):
    AUTO = "auto"
    DOCKER = "docker"
    PROCESS = "process"


def command(
    specs: Annotated[
        Path, typer.Option(help="The directory with the specs; it is watched.")
    ] = Path("specs"),
    data: DataOption = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to serve; 0 takes a free port.")
    ] = 8080,
    runtime: Annotated[
        RuntimeChoice, typer.Option(help="Where workspaces run.")
    ] = RuntimeChoice.AUTO,
    detach_workspaces: Annotated[
        bool, typer.Option(help="Leave the workspaces running when this ends.")
    ] = False,
) -> None:
    """Run everything on this machine: database, Redis, archives, workspaces, pages.

    Workspaces are containers of this machine's Docker engine, or plain processes. With
    '--runtime auto' both can be used where an engine answers, and else processes alone.

    Loads the specs and follows them as they change. Ctrl-C stops all of it, workspaces too; homes
    stay, and the next 'codehub up' goes on where this one ended.

    Example: codehub up --specs specs --port 8080
    """
    from codehub.cli.everything import Wishes, run_everything

    run_everything(Wishes(specs, data, port, runtime, detach_workspaces))
