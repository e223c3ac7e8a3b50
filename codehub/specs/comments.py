"""The comments in a YAML text, as ruamel's round-trip reader sees them.

`codehub fmt` counts them before and after. It asks another reader than the one whose positions
it moved lines by: what both agree on is not lost.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from codehub.specs.unformatted import CannotFormat

if TYPE_CHECKING:
    from collections.abc import Iterator


def count_comments(text: str) -> Counter[str]:
    """How often each comment stands in the text; where, does not matter."""
    found: Counter[str] = Counter()
    try:
        for token in YAML(typ="rt").scan(text):
            for comment in _texts(getattr(token, "_comment", None)):
                lines = (line.strip() for line in comment.splitlines())
                found.update(line for line in lines if line.startswith("#"))
    except YAMLError as error:
        # It is stricter than libyaml, about tabs above all.
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        line = mark.line if mark else 0
        raise CannotFormat(line, "its comments cannot be told for sure; replace tabs") from error
    return found


def _texts(comment: object) -> Iterator[str]:
    """ruamel keeps comments before and behind a token in nested lists of tokens and texts."""
    if isinstance(comment, list | tuple):
        for each in comment:
            yield from _texts(each)
    elif isinstance(comment, str):
        yield comment
    elif comment is not None:
        yield str(getattr(comment, "value", ""))
