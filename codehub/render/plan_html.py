"""The plan as one self-contained page: no script, no outside file, nothing that it may load.

Everything is escaped twice over: what could deceive a reader becomes visible (`clean`), and what
is markup becomes text (Jinja's autoescape).
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from codehub.core.express import short
from codehub.render import plan_words as words
from codehub.render.words import clean
from codehub.resources import template_directory

if TYPE_CHECKING:
    from codehub.model.plan import Plan


def plan_html(plan: Plan) -> str:
    """The page, whole."""
    style = (template_directory() / "style" / "plan.css").read_text(encoding="utf-8")
    # In a page that is one file, a hash is the only way to allow this style and no other.
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template("plan.html.j2")
        .render(
            plan=plan,
            words=words,
            short=short,
            style=Markup(style),
            style_hash=f"sha256-{digest}",
            passive=list(words.passive(plan)),
        )
    )


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
