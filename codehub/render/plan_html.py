"""The plan as one self-contained page: no script, no outside file, nothing that it may load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.express import short
from codehub.render import plan_words as words
from codehub.render.template import render

if TYPE_CHECKING:
    from codehub.model.plan import Plan


def plan_html(plan: Plan, *, back: str = "") -> str:
    """The page, whole; served by the hub, `back` is the address of the page that leads to it."""
    return render(
        "plan.html.j2",
        style="plan.css",
        plan=plan,
        words=words,
        short=short,
        passive=list(words.passive(plan)),
        back=back,
    )
