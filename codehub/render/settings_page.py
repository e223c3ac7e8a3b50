"""`docs/reference/settings.md`, made from the settings themselves.

`python -m codehub.render.settings_page` prints it, and a test compares the page with that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codehub.config import CONFIG_FILE, Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

INTRODUCTION = f"""# Settings

Environment variables, or the same names in small letters in `{CONFIG_FILE}` in the current
directory. The environment wins. Durations are in seconds.

| setting | default | meaning |
|---|---|---|
"""


def settings_page() -> str:
    """The whole page."""
    rows = (_row(name, field) for name, field in Settings.model_fields.items())
    return INTRODUCTION + "".join(rows)


def _row(name: str, field: FieldInfo) -> str:
    return f"| `{name.upper()}` | {_default(field.default)} | {field.description} |\n"


def _default(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, frozenset):
        return f"`{','.join(sorted(value))}`"
    return f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
