"""The plan in any of its renderings, each imported only when somebody asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codehub.model.plan import Plan


def render_plan(plan: Plan, output: str, *, color: bool = False) -> str:
    """The plan in one of its renderings, ending with a line break."""
    match output:
        case "json":
            from codehub.render.plan_json import plan_json

            text = plan_json(plan)
        case "md":
            from codehub.render.plan_markdown import plan_markdown

            text = plan_markdown(plan)
        case "html":
            from codehub.render.plan_html import plan_html

            text = plan_html(plan)
        case _:
            from codehub.render.plan_text import plan_text

            text = plan_text(plan, color=color)
    return text if text.endswith("\n") else text + "\n"
