"""The reference of the specs says what the models say."""

from __future__ import annotations

from pathlib import Path

import pytest

from codehub.model.spec import DOCUMENTS
from codehub.render.spec_page import sample, spec_page
from codehub.specs.fmt import format_content

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "specs.md"


def test_the_page_is_fresh() -> None:
    fresh = spec_page()

    assert "| `wakeFrom` | `STANDBY`, `ARCHIVED` | `STANDBY` |" in fresh
    assert PAGE.read_text() == fresh, (
        "run: python -m codehub.render.spec_page > docs/reference/specs.md"
    )


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_field_of_a_kind_is_on_the_page(kind: str) -> None:
    section = spec_page().split(f"\n## {kind}\n")[1].split("\n## ")[0]
    spec = DOCUMENTS[kind].model_fields["spec"].annotation

    assert spec is not None
    for name, field in spec.model_fields.items():
        assert f"| `{field.alias or name}` |" in section


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_samples_are_in_canonical_order(kind: str) -> None:
    text = sample(DOCUMENTS[kind]).encode()

    assert format_content(text, "sample.yaml") == text
