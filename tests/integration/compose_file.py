"""Reads `deploy/compose` as compose does: the YAML, and the values that come from `.env`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

Service: TypeAlias = "dict[str, Any]"

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
HOW_TO = ROOT / "docs" / "how-to" / "team-of-twenty.md"
CADDYFILE = COMPOSE / "Caddyfile"
DOCKERFILE = COMPOSE / "Dockerfile"
EXAMPLE_ENV = COMPOSE / "example.env"
"""The profile of what comes with the next version."""

_VALUE = re.compile(r"\$(?:\$|\{(\w+):\?[^}]+\}|.?)")


@cache
def raw() -> dict[str, Any]:
    """As it is written, nothing filled in."""
    read: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return read


def with_private_images() -> dict[str, Any]:
    """The same, with the comment signs off the lines for a private registry."""
    lines = (COMPOSE / "compose.yaml").read_text().splitlines()
    signs = [at for at, line in enumerate(lines) if re.match(r" +# (DOCKER_CONFIG:|- type:)", line)]
    for at in signs:
        end = next(i for i in range(at, len(lines)) if not lines[i].lstrip().startswith("# "))
        lines[at:end] = [line.replace("# ", "", 1) for line in lines[at:end]]
    read: dict[str, Any] = yaml.safe_load("\n".join(lines))
    return read


def services(values: Mapping[str, str]) -> dict[str, Service]:
    """All services, with these values in the places of their names."""
    filled: dict[str, Service] = _fill(raw()["services"], values)
    return filled


def names() -> set[str]:
    """What the file wants from `.env`."""
    asked = _Asked()
    services(asked)
    return asked.seen


def variables(text: str) -> dict[str, str]:
    """The lines of an `.env`."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def words(service: Service) -> list[str]:
    """The command, as words."""
    command: list[str] = service.get("command", [])
    return command


def filled_in() -> dict[str, str]:
    """Some value for each name, all different."""
    return {name: f"{name.lower().replace('_', '')}0123456789" for name in names()}


class _Asked(dict[str, str]):
    """Has a value for every name, and knows which were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __missing__(self, name: str) -> str:
        self.seen.add(name)
        return name.lower()


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, values) for each in value]
    return _VALUE.sub(lambda found: _one(found, values), value) if isinstance(value, str) else value


def _one(found: re.Match[str], values: Mapping[str, str]) -> str:
    """`$$` is a dollar, `${NAME:?why}` a value that must be there; the file uses nothing else."""
    if found[0] == "$$":
        return "$"
    assert found[1], f"{found[0]} may be empty without anybody noticing"
    assert values[found[1]], f"{found[1]} has no value"
    return values[found[1]]
