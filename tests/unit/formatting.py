"""Formatting a text in tests, with what must hold for every text checked on the way."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml

from codehub.errors import SpecsInvalid
from codehub.specs.comments import count_comments
from codehub.specs.fmt import format_content


def format_text(text: str) -> str:
    return format_content(text.encode(), "a.yaml").decode()


def formatted(text: str) -> str:
    """The formatted text: it means the same, has the same comments, and is settled."""
    text = dedent(text)
    made = format_text(text)
    assert list(yaml.safe_load_all(made)) == list(yaml.safe_load_all(text))
    assert count_comments(made) == count_comments(text)
    assert format_text(made) == made
    return made


def refusal(text: str) -> str:
    """Why a text is left as it is."""
    with pytest.raises(SpecsInvalid) as caught:
        format_text(dedent(text))
    return str(caught.value.problems[0])
