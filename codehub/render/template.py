"""Templates as pages: each one self-contained file that loads nothing, its style allowed by hash.

Everything is escaped twice over: what could deceive a reader becomes visible (`clean`), and what
is markup becomes text (Jinja's autoescape).
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from codehub.render.words import clean
from codehub.resources import template_directory


def render(template: str, *, style: str, **values: Any) -> str:
    """The page, whole, with its style in it: one sheet, or several named with spaces between."""
    sheet, digest = _style(style)
    found = _environment().get_template(template)
    return found.render(style=sheet, style_hash=digest, **values)


def style_hash(style: str) -> str:
    """What a policy allows this style by."""
    return _style(style)[1]


@cache
def script(name: str) -> str:
    """A script of ours, as it is served."""
    return (template_directory() / "script" / name).read_text(encoding="utf-8")


@cache
def _style(name: str) -> tuple[Markup, str]:
    sheets = (template_directory() / "style" / each for each in name.split())
    text = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    # In a page that is one file, a hash is the only way to allow this style and no other.
    digest = b64encode(sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(template_directory()),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _visible(value: Any) -> Any:
    """Every value that a template prints passes here; markup of our own passes as it is."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return clean(str(value))
