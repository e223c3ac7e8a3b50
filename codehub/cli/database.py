"""`codehub db`: prepare the hub's database, or tell its version."""

from __future__ import annotations

import typer

from codehub.cli.options import DataOption, HubOption

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def upgrade(hub: HubOption = None, data: DataOption = None) -> None:
    """Bring the database to this version of CodeHub. Safe to repeat, safe to run twice at once.

    Example: codehub db upgrade --hub postgresql://codehub@db.internal/codehub
    """
    from codehub.config import load_settings
    from codehub.store.schema import upgrade as upgrade_schema
    from codehub.wiring import database_address, find_hub

    with database_address(find_hub(hub, data, load_settings())) as url:
        before = upgrade_schema(url)
    if before.fits:
        typer.echo(f"the database is up to date, at version {before.head}")
    else:
        typer.echo(f"the database went from version {before.revision or 'none'} to {before.head}")


@app.command()
def current(hub: HubOption = None, data: DataOption = None) -> None:
    """Tell which version the database has. Exits with 1 when it does not fit this CodeHub.

    Example: codehub db current
    """
    from codehub.cli.hubs import require_hub
    from codehub.store.schema import current as current_schema
    from codehub.store.schema import misfit
    from codehub.wiring import database_address

    with database_address(require_hub(hub, data)) as url:
        state = current_schema(url)
    typer.echo(f"version {state.revision or 'none'}; this codehub knows {state.head}")
    problem = misfit(state)
    if problem:
        raise problem
