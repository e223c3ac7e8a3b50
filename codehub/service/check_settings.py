"""Checking the settings: readable, and where they come from. Names only: values may be secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.config import CONFIG_FILE, Settings
from codehub.core.suggest import did_you_mean
from codehub.model.checkup import problem, warning, well

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.errors import CodeHubError
    from codehub.model.checkup import Verdict


async def look(sources: Mapping[str, str], trouble: CodeHubError | None) -> Verdict:
    """Whether they are readable, and which are not the defaults."""
    if trouble is not None:
        return problem(
            f"{trouble.message}; the checks below go by the defaults",
            trouble.hint or "",
        )
    unknown = sorted(name for name in sources if name not in Settings.model_fields)
    if unknown:
        names = ", ".join(f"{name}{did_you_mean(name, Settings.model_fields)}" for name in unknown)
        return warning(f"{CONFIG_FILE} names what is no setting: {names}", "correct or remove it")
    return well(_where(sources) or "the defaults; none is set")


def _where(sources: Mapping[str, str]) -> str:
    """`from the environment: DATABASE_URL; from codehub.toml: TTL_STANDBY_SECONDS`."""
    places = sorted(set(sources.values()))
    return "; ".join(
        f"from {place}: {', '.join(sorted(n.upper() for n in sources if sources[n] == place))}"
        for place in places
    )
