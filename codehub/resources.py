"""Where the files that CodeHub ships beside its code are.

In a source tree `templates/` and `specs/` stand at the top, where people look for them; a wheel
carries them below `codehub/shipped/`. Nothing else in the code knows the difference.
"""

from __future__ import annotations

from pathlib import Path

from codehub.errors import CodeHubError

_PACKAGE = Path(__file__).resolve().parent


def template_directory() -> Path:
    """The Jinja templates."""
    return _shipped("templates")


def example_specs_directory() -> Path:
    """The example specs that `codehub init` copies."""
    return _shipped("specs")


def _shipped(name: str) -> Path:
    for candidate in (_PACKAGE / "shipped" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise CodeHubError(
        f"this installation of CodeHub lacks its {name}/ directory", hint="install codehub again"
    )
