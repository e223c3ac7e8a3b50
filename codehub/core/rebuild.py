"""Making workspaces of the archives that a lost database left behind.

The newest good archive of a workspace is its home. Every generation that an archive names was given
out, so the next one is above them all; none above is taken, so that a volume which outlived the
database is seen to be newer than it, and is kept. Of several workspaces with one name (deleted and
made again) the one that was archived last has it; the others need a name from a person.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.digest import template_digest
from codehub.errors import Refused, UsageError
from codehub.model.salvage import Forsaken, Home, LeftOut, Rebuild
from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Declaration, Intent, Runtime, Source, Status, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from codehub.model.salvage import Committed, Known, LeftBehind, Salvage

NO_IMAGE: Final = "fill-in.invalid/image:tag"
"""Names under .invalid are never given to anybody, so nothing is pulled by mistake."""
NO_COMMAND: Final = ("fill-in-the-command",)

DAMAGED: Final = "restore the damaged ones from a backup of the store, then import again"

_NAME: Final = re.compile(NAME_PATTERN)


def rebuild(
    salvage: Salvage, known: Known, runtime: Runtime, renames: Mapping[UUID, str]
) -> Rebuild:
    """What an import makes of a salvage; `renames` gives workspaces another name than they had."""
    require_room(known, salvage.hub_id)
    found = {home.id: home for home in _homes(salvage, runtime)}
    _require_sane(renames, found, known)
    new = [replace(found[each], name=renames.get(each, found[each].name)) for each in found]
    new = [each for each in new if each.id not in known.ids]
    homes, left_out = _give_names(new, known, renames)
    lost = _without_archive(salvage, found, known)
    return Rebuild(
        hub_id=salvage.hub_id,
        homes=tuple(sorted(homes, key=lambda each: each.name)),
        undeclared=tuple(_undeclared(found, known)),
        present=len(known.ids & found.keys()),
        left_out=tuple(sorted((*left_out, *lost), key=lambda each: (each.name, each.id))),
        flawed=salvage.flawed,
        unfinished=salvage.unfinished,
        ids=known.ids | {each.id for each in homes},
    )


def find_forsaken(left: LeftBehind, plan: Rebuild) -> tuple[Forsaken, ...]:
    """The homes that no workspace has after an import: most were never archived.

    A workspace of the same name gets another id, and with it a new home.
    """
    names = {each.id: each.name for each in plan.left_out}
    found = (
        Forsaken(runtime, each, _told(each.workspace_name or names.get(each.workspace_id, "")))
        for runtime, volumes in left.volumes.items()
        for each in volumes
        if each.workspace_id not in plan.ids
    )
    return tuple(sorted(found, key=lambda each: (each.runtime, each.workspace, each.volume.name)))


def likely_runtime(usual: Runtime, left: LeftBehind) -> Runtime:
    """What the workspaces ran on, which archives do not say.

    An engine gets the hub's mark when the first workspace needs it, and a data root whenever a hub
    may use it: so the engine's tells more, unless there are homes below the root.
    """
    on_docker = Runtime.DOCKER in left.marked and not left.volumes.get(Runtime.PROCESS)
    return Runtime.DOCKER if on_docker else usual


def require_room(known: Known, hub_id: UUID) -> None:
    """Only a database that nobody has used can become that of another hub."""
    if known.hub_id == hub_id:
        return
    if known.ids or known.loaded:
        what = f"the hub {known.hub_id}" if known.hub_id else "other workspaces"
        raise Refused(
            f"the database is in use by {what}, and the archives are those of the hub {hub_id}",
            hint="give a new, empty database with --hub or DATABASE_URL; nothing was changed",
        )


def workspace_of(home: Home, source: Source, by: str, now: datetime) -> Workspace:
    """The row of a home: archived, and suspended until a person has completed its spec.

    A suspended workspace is left alone with all that the runtime still holds of it.
    """
    declared = declaration_of(home, source)
    archive = home.archive
    return Workspace(
        id=home.id,
        declaration=declared,
        intent=Intent(DesiredState.ARCHIVED, IntentSource.CLI, now, by),
        status=Status(
            phase=Phase.ARCHIVED,
            phase_changed_at=now,
            archive_key=archive.key,
            archive_bytes=archive.bytes,
            archive_sha256=archive.sha256,
            home_generation=home.generation,
        ),
        template_digest=template_digest(declared),
        orphaned=True,
        created_at=home.created_at,
    )


def declaration_of(home: Home, source: Source) -> Declaration:
    """What the written spec of a home declares."""
    process = home.runtime is Runtime.PROCESS
    return Declaration(
        name=home.name,
        owner=home.owner,
        runtime=home.runtime,
        image=None if process else NO_IMAGE,
        command=NO_COMMAND if process else (),
        suspend=True,
        source=source,
    )


def is_name(text: str) -> bool:
    """Whether a spec may have this as the name of a workspace or a user."""
    return len(text) <= NAME_LENGTH and _NAME.fullmatch(text) is not None


def _homes(salvage: Salvage, runtime: Runtime) -> Iterator[Home]:
    shelves: dict[UUID, list[Committed]] = defaultdict(list)
    flawed: dict[UUID, list[datetime]] = defaultdict(list)
    for each in salvage.committed:
        shelves[each.meta.workspace_id].append(each)
    for one in salvage.flawed:
        flawed[one.workspace_id].append(one.at)
    for workspace_id, archives in sorted(shelves.items()):
        yield _home(archives, flawed[workspace_id], runtime)


def _home(archives: Sequence[Committed], flawed: Iterable[datetime], runtime: Runtime) -> Home:
    newest = max(archives, key=lambda each: (each.meta.created_at, each.meta.generation, each.at))
    meta = newest.meta
    return Home(
        id=meta.workspace_id,
        name=meta.workspace_name,
        owner=meta.owner,
        runtime=runtime,
        archive=meta,
        generation=max(each.meta.generation for each in archives),
        created_at=min(each.meta.created_at for each in archives),
        older=len(archives) - 1,
        # Stores keep whole seconds: what is as old may be newer.
        outdated=any(at >= newest.at for at in flawed),
    )


def _told(name: str) -> str:
    """A label may have been written by anybody."""
    return name if is_name(name) else ""


def _require_sane(renames: Mapping[UUID, str], found: Mapping[UUID, Home], known: Known) -> None:
    for workspace_id, name in renames.items():
        if workspace_id not in found:
            raise UsageError(f"--as: the archive store has no usable archive of {workspace_id}")
        if not is_name(name):
            raise UsageError(
                f'--as: "{name}" cannot be the name of a workspace',
                hint=f"use small letters, digits and '-', at most {NAME_LENGTH} characters",
            )
        if known.names.get(name, workspace_id) != workspace_id:
            raise UsageError(f'--as: the hub has a workspace "{name}" already')
    if len(set(renames.values())) < len(renames):
        raise UsageError("--as: two workspaces cannot have the same name")


def _give_names(
    homes: Iterable[Home], known: Known, renames: Mapping[UUID, str]
) -> tuple[list[Home], list[LeftOut]]:
    """Names that a person gave count first, then those of the workspaces archived last."""
    taken = dict(known.names)
    kept: list[Home] = []
    left_out: list[LeftOut] = []
    for each in sorted(homes, key=lambda one: (one.id in renames, _age(one)), reverse=True):
        if not is_name(each.name) or not is_name(each.owner):
            left_out.append(_unnamed(each))
        elif taken.setdefault(each.name, each.id) == each.id:
            kept.append(each)
        else:
            left_out.append(_namesake(each, taken[each.name], known))
    return kept, left_out


def _age(home: Home) -> tuple[datetime, UUID]:
    return home.archive.created_at, home.id


def _unnamed(home: Home) -> LeftOut:
    if is_name(home.owner):
        why = "its name cannot be that of a workspace"
        return LeftOut(home.id, home.name, why, _name_it(home.id))
    why = f'its owner "{home.owner}" cannot be the name of a user'
    return LeftOut(home.id, home.name, why, f"unpack {home.archive.key} by hand")


def _namesake(home: Home, other: UUID, known: Known) -> LeftOut:
    there = "is in the hub" if other in known.ids else "was archived later"
    why = f"{other} has the same name and {there}"
    return LeftOut(home.id, home.name, why, _name_it(home.id))


def _name_it(workspace_id: UUID) -> str:
    return f"import again with --as {workspace_id}=NEW-NAME"


def _without_archive(
    salvage: Salvage, found: Mapping[UUID, Home], known: Known
) -> Iterator[LeftOut]:
    lost = {each.workspace_id for each in salvage.flawed} - found.keys() - known.ids
    for each in lost:
        yield LeftOut(each, "", "none of its archives can be used", DAMAGED)


def _undeclared(found: Mapping[UUID, Home], known: Known) -> Iterator[Home]:
    """What an earlier import made; its specs may not have been written, or be in another place."""
    for workspace_id, row in sorted(known.undeclared.items(), key=lambda each: each[1].name):
        if workspace_id in found:
            yield replace(found[workspace_id], name=row.name, runtime=row.runtime)
