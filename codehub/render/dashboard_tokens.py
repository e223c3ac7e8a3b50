"""The page of one's tokens: what there are, a form for another, and the secret of a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.model.access import Scope
from codehub.render.dashboard import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.access import Issued, Token
    from codehub.render.dashboard import Shell
    from codehub.render.pages import Rendered

SCOPES: Final = (
    (Scope.READ, "look at workspaces, reports and logs"),
    (Scope.WAKE, "reach workspaces, and wake them"),
    (Scope.WRITE, "change things, and both of the above"),
    (Scope.PLAN, "make plans of specs, and nothing else"),
)
_FOR_ADMINS: Final = frozenset({Scope.PLAN})
"""A plan shows the whole hub: anybody else's token of that scope would be refused."""
DAYS: Final = (1, 7, 30, 90, 365)
USUAL_DAYS: Final = 90


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody filled in; `problem` is why it could not be had."""

    name: str = ""
    scopes: frozenset[Scope] = frozenset()
    days: int = USUAL_DAYS
    problem: str = ""


def tokens_page(
    tokens: Sequence[Token],
    shell: Shell,
    *,
    address: str,
    made: Issued | None = None,
    wish: Wish | None = None,
) -> Rendered:
    """`address` is the hub's own, for an example."""
    return page(
        "dashboard_tokens.html.j2",
        shell,
        tokens=tokens,
        address=address,
        made=made,
        wish=wish or Wish(),
        scopes=[each for each in SCOPES if shell.admin or each[0] not in _FOR_ADMINS],
        days=DAYS,
    )
