"""`codehub show`: a saved plan, in any rendering, also when it is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codehub.cli.plan import FormatOption, OutOption, PlanFormat


def command(
    plan: Annotated[Path, typer.Argument(help="A plan saved with 'codehub plan --save'.")],
    output: FormatOption = PlanFormat.TEXT,
    out: OutOption = None,
) -> None:
    """Show a saved plan as it was made. Looks at neither specs nor hub.

    Example: codehub show plan.json --format html --out plan.html
    """
    from codehub.cli.printing import colorful, deliver
    from codehub.render.plan_formats import render_plan
    from codehub.service.saved import read_plan_file

    saved = read_plan_file(plan)
    text = render_plan(saved.plan, output, color=out is None and colorful())
    deliver(text, out, "plan")
