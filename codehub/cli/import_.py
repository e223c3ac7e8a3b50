"""`codehub import`: bring a hub back whose database was lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from codehub.cli.options import DataOption, HubOption
from codehub.errors import UsageError
from codehub.model.workspace import Runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.model.salvage import Known, Rebuild, Salvage
    from codehub.ports import ObjectStore
    from codehub.specs.drafts import Drafts
    from codehub.wiring import HubChoice


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asked for on the command line."""

    directory: Path
    runtime: Runtime
    renames: Mapping[UUID, str] = field(default_factory=dict)
    dry_run: bool = False


def command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to write specs; made if it is not there.")
    ] = Path("specs"),
    from_bucket: Annotated[
        bool,
        typer.Option("--from-bucket", help="From the archives in the hub's archive store."),
    ] = False,
    hub_id: Annotated[
        str | None,
        typer.Option("--hub-id", help="Which hub's archives, where the store has several hubs'."),
    ] = None,
    renames: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            metavar="ID=NAME",
            help="Give the workspace with this id another name. May be repeated.",
        ),
    ] = None,
    runtime: Annotated[
        Runtime | None,
        typer.Option(
            "--runtime",
            help="What to write into the specs. Default: Docker where the engine bears the hub's "
            "mark, else what the hub enables.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be imported.")
    ] = False,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Rebuild the workspaces of a hub whose database was lost, from its archives.

    Needs a new database and the lost hub's archive store (ARCHIVE_STORE_URL), and no coordinator
    that runs. Makes each workspace anew, archived, and writes a spec for it into DIR, where nothing
    is overwritten. May be repeated. Exits with 1 when a workspace could not be brought back as
    it was last archived. Lists the homes that the runtimes still hold and that no workspace has
    any more: copy out what is in them before you apply.

    Example: codehub import --from-bucket recovered --dry-run
    """
    from codehub.config import load_settings
    from codehub.wiring import find_hub

    if not from_bucket:
        raise UsageError("say what to import from", hint="example: --from-bucket recovered")
    settings = load_settings()
    choice = find_hub(hub, data, settings)
    wish = Wish(directory, runtime or _usual(choice, settings), _renames(renames or ()), dry_run)
    asked = _uuid(hub_id, "--hub-id") if hub_id else None
    if not _import(choice, settings, asked, wish, guess=runtime is None):
        raise typer.Exit(1)


def _import(
    choice: HubChoice, settings: Settings, hub_id: UUID | None, wish: Wish, *, guess: bool
) -> bool:
    """Whether all came back; `guess` lets what the runtimes hold tell which one it was."""
    from codehub.cli.left_behind import look_behind
    from codehub.core.rebuild import likely_runtime
    from codehub.render.import_text import import_text
    from codehub.service.importing import choose_hub, list_archives, read_salvage
    from codehub.wiring import open_archive_store

    store = open_archive_store(choice, settings)
    shelves = list_archives(store, hub_id, _tell)
    chosen = choose_hub(shelves, hub_id)
    salvage = read_salvage(store, chosen, shelves[chosen], _tell)
    left = asyncio.run(look_behind(choice, settings, chosen))
    if guess:
        wish = replace(wish, runtime=likely_runtime(wish.runtime, left))
    plan, drafts = asyncio.run(_rebuild(choice, store, salvage, wish))
    text = import_text(plan, left, str(wish.directory), len(drafts.files), dry_run=wish.dry_run)
    typer.echo(text, nl=False)
    return plan.complete


async def _rebuild(
    choice: HubChoice, store: ObjectStore, salvage: Salvage, wish: Wish
) -> tuple[Rebuild, Drafts]:
    from codehub.core.rebuild import rebuild
    from codehub.model.salvage import Known
    from codehub.specs.drafts import draft_specs
    from codehub.wiring import open_hub

    if wish.dry_run and not choice.exists:
        plan = rebuild(salvage, Known(), wish.runtime, wish.renames)
        return plan, draft_specs(wish.directory, plan.homes)
    async with open_hub(choice) as conn:
        return await rebuild_hub(conn, store, salvage, wish)


async def rebuild_hub(
    conn: AsyncConnection[DictRow], store: ObjectStore, salvage: Salvage, wish: Wish
) -> tuple[Rebuild, Drafts]:
    """Everything that writes, in the order in which it may be cut short and repeated.

    First the store's count, so that nothing can be collected; then the rows, all or none; then the
    specs, which the next import completes.
    """
    from codehub.cli.consent import author
    from codehub.service.importing import preview_import, write_import
    from codehub.specs.drafts import draft_specs, write_drafts

    known, plan = await preview_import(conn, salvage, wish.runtime, wish.renames)
    drafts = draft_specs(wish.directory, (*plan.homes, *plan.undeclared))
    if wish.dry_run:
        return plan, drafts
    if plan.homes:
        plan = await write_import(
            conn,
            salvage,
            wish.runtime,
            wish.renames,
            sources=drafts.sources,
            guard=await _hold_collections(store, salvage.hub_id, known),
            by=author(),
        )
    write_drafts(drafts)
    return plan, drafts


async def _hold_collections(store: ObjectStore, hub_id: UUID, known: Known) -> int:
    """See that the store counts more collections than the database, and has the hub's mark."""
    from codehub.coordinator.marker import create_marker, raise_epoch, read_marker

    marker = await read_marker(store, hub_id) or await create_marker(store, hub_id)
    if marker.epoch > known.collections:
        return marker.epoch
    await raise_epoch(store, hub_id, known.collections + 1)
    return known.collections + 1


def _usual(choice: HubChoice, settings: Settings) -> Runtime:
    """The runtime that the hub enables; of several, that of most hubs of its kind."""
    from codehub.wiring import enabled_runtimes

    enabled = enabled_runtimes(choice, settings)
    likely = (Runtime.PROCESS, Runtime.DOCKER) if choice.embedded else (Runtime.DOCKER,)
    return next((each for each in (*likely, *sorted(enabled)) if each in enabled), Runtime.DOCKER)


def _renames(words: Sequence[str]) -> dict[UUID, str]:
    pairs = [word.partition("=") for word in words]
    for word, (_, sign, name) in zip(words, pairs, strict=True):
        if not sign or not name:
            raise UsageError(f'--as: "{word}" is not ID=NAME', hint="the import lists the ids")
    found = {_uuid(number, "--as"): name for number, _, name in pairs}
    if len(found) < len(pairs):
        raise UsageError("--as: a workspace is named twice")
    return found


def _uuid(text: str, option: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f'{option}: "{text}" is not an id', hint="the import lists them") from None


def _tell(text: str) -> None:
    typer.echo(text, err=True)
