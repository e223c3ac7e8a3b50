"""`codehub doctor`: check the hub and this machine, and say how to fix what is wrong."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.errors import CodeHubError
    from codehub.service.checkup import Place
    from codehub.wiring import HubChoice


class DoctorFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    output: Annotated[
        DoctorFormat, typer.Option("--format", help="How to show it.")
    ] = DoctorFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Check the hub and this machine, and say how to fix what is wrong.

    Exits with 1 when there is a problem. Changes nothing.

    Example: codehub doctor
    """
    from codehub.model.checkup import Health
    from codehub.render.doctor_text import doctor_json, doctor_text
    from codehub.service.checkup import examine
    from codehub.wiring import find_hub

    settings, trouble = _settings()
    choice = find_hub(hub, data, settings)
    with ExitStack() as stack:
        url, no_server = _address(choice, stack)
        findings = asyncio.run(examine(_place(choice, settings, trouble, url, no_server)))
    if output is DoctorFormat.JSON:
        typer.echo(doctor_json(findings))
    else:
        typer.echo(doctor_text(findings), nl=False)
    if any(each.health is Health.PROBLEM for each in findings):
        raise typer.Exit(1)


def _settings() -> tuple[Settings, CodeHubError | None]:
    """The settings, or the defaults and what is wrong with them: the rest can still be checked."""
    from codehub.config import Settings, load_settings
    from codehub.errors import CodeHubError

    try:
        return load_settings(), None
    except CodeHubError as error:
        return Settings.model_construct(), error


def _address(choice: HubChoice, stack: ExitStack) -> tuple[str | None, CodeHubError | None]:
    """The database's address; an embedded server runs until the stack is left."""
    from codehub.errors import CodeHubError
    from codehub.wiring import database_address

    if not choice.exists:
        return None, None
    try:
        return stack.enter_context(database_address(choice)), None
    except CodeHubError as error:
        return None, error


def _place(
    choice: HubChoice,
    settings: Settings,
    trouble: CodeHubError | None,
    url: str | None,
    no_server: CodeHubError | None,
) -> Place:
    from codehub.config import setting_sources
    from codehub.model.workspace import Runtime
    from codehub.service.checkup import Place
    from codehub.wiring import ARCHIVES, WORKSPACES, archive_store_url, enabled_runtimes

    by_default, archives = settings.archive_store_url is None, choice.data / ARCHIVES
    enabled = enabled_runtimes(choice, settings)
    redis = settings.redis_url
    return Place(
        data=choice.data,
        embedded=choice.embedded,
        url=url,
        trouble=no_server,
        redis_url=redis.get_secret_value() if redis else None,
        archive_url=archive_store_url(choice, settings),
        archives_are_new=by_default and not choice.exists and not archives.exists(),
        root=choice.data / WORKSPACES if Runtime.PROCESS in enabled else None,
        docker=Runtime.DOCKER in enabled,
        docker_asked_for=settings.runtime_enabled is not None or not choice.embedded,
        docker_host=settings.docker_host,
        secrets=settings.secrets_dir,
        sources={} if trouble else setting_sources(),
        settings_trouble=trouble,
    )
