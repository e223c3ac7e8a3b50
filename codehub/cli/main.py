"""The `codehub` command: finds the verb, imports it alone, and turns errors into exit codes.

Everything a person sees when something goes wrong is decided here: one sentence on stderr, what
to do next below it, no traceback unless `--debug` was given.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from codehub import __version__
from codehub.cli.verbs import VERBS, Verb
from codehub.core.suggest import did_you_mean
from codehub.errors import CodeHubError, SpecsInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

USAGE = 64
INTERRUPTED = 130
# Typer carries its own copy of click in newer releases: the class is found, not imported.
ClickError: type[Exception] = typer.BadParameter.__mro__[2]
FAULT = "please report it with what the same command prints with --debug"
ABOUT = """Keep development workspaces as your YAML declares them.

Example: 'codehub init', then 'codehub validate' and 'codehub plan'.
"""


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    # A command reads thousands of values and ends; looking for cycles among them takes a tenth of
    # its time and finds none.
    gc.set_threshold(200_000)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code is what a script can rely on."""
    words, debug = _without_debug(arguments)
    try:
        return _dispatch(words)
    except CodeHubError as error:
        if debug:
            raise
        _tell(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("codehub: interrupted, nothing more was done", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        _tell(CodeHubError(f"a fault in codehub itself: {type(error).__name__}", hint=FAULT))
        return 1


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """`--debug` may stand anywhere before `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words = [word for word in arguments[:end] if word != "--debug"]
    return [*words, *arguments[end:]], len(words) < end


def _dispatch(words: list[str]) -> int:
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is None and "--version" in words:
        typer.echo(f"codehub {__version__}")
        return 0
    app = _app(verb)
    try:
        result = app(args=words, prog_name="codehub", standalone_mode=False)
    except ClickError as error:
        raise UsageError(_usage_message(error), hint=_usage_hint(verb)) from error
    if result == INTERRUPTED:
        raise KeyboardInterrupt  # Typer made an exit code of it, and said nothing
    return result if isinstance(result, int) else 0


def _usage_message(error: BaseException) -> str:
    speak = getattr(error, "format_message", None)
    return str(speak() if speak else error).rstrip(".")


def _usage_hint(verb: str | None) -> str:
    return f"see 'codehub {verb} --help'" if verb else "see 'codehub --help'"


def _app(wanted: str | None) -> typer.Typer:
    """A Typer application in which only the wanted verb is real; help needs the others' names."""
    app = typer.Typer(
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_callback)
    completing = "_CODEHUB_COMPLETE" in os.environ
    if wanted is not None and not completing:
        return _with_verbs(app, [_find(wanted)], real=True)
    return _with_verbs(app, VERBS, real=completing)


def _callback(
    version: bool = typer.Option(False, "--version", help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show where an error came from."),
) -> None:
    """Both are dealt with before Typer runs; they stand here for `--help`."""


_callback.__doc__ = ABOUT


def _find(name: str) -> Verb:
    for verb in VERBS:
        if verb.name == name:
            return verb
    names = [verb.name for verb in VERBS]
    raise UsageError(f'no command "{name}"{did_you_mean(name, names)}', hint="see 'codehub --help'")


def _with_verbs(app: typer.Typer, verbs: Iterable[Verb], *, real: bool) -> typer.Typer:
    for verb in verbs:
        if not real:
            app.command(verb.name, help=verb.summary)(_stub())
            continue
        module = importlib.import_module(verb.path)
        if verb.group:
            app.add_typer(module.app, name=verb.name, help=verb.summary)
        else:
            app.command(verb.name)(module.command)
    return app


def _stub() -> Callable[[], None]:
    def command() -> None:
        """Stands in the list of commands only."""

    return command


def _tell(error: CodeHubError) -> None:
    from codehub.render.words import clean

    if isinstance(error, SpecsInvalid):
        from codehub.render.problems_text import problem_text

        for problem in error.problems:
            typer.echo(problem_text(problem), err=True, nl=False)
    typer.echo(f"codehub: {clean(error.message)}", err=True)
    if error.hint:
        typer.echo(f"  {clean(error.hint)}", err=True)
