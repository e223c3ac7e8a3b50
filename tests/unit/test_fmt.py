"""fmt puts fields in order and keeps what people wrote, layout by layout."""

from __future__ import annotations

from textwrap import dedent

import pytest

from codehub.errors import SpecsInvalid
from codehub.specs.fmt import format_content
from tests.unit.formatting import format_text, formatted, refusal


def test_fields_come_in_the_order_of_the_models() -> None:
    made = formatted("""\
        spec:
          protect: true
          ttl: batch
          owner: alice
        metadata: {labels: {team: x}, name: api}
        kind: Workspace
        apiVersion: codehub.dev/v1
        """)

    assert made == dedent("""\
        apiVersion: codehub.dev/v1
        kind: Workspace
        metadata: {name: api, labels: {team: x}}
        spec:
          owner: alice
          ttl: batch
          protect: true
        """)


def test_what_is_in_order_is_not_touched() -> None:
    text = "apiVersion: codehub.dev/v1\nkind: User\nmetadata:\n  name: 'bob' # b\nspec: {}\n"

    assert formatted(text) == text


def test_unknown_fields_go_behind_the_known_ones_in_their_own_order() -> None:
    made = formatted("zeta: 1\nkind: Other\nalpha: 2\napiVersion: v9\n")

    assert made == "apiVersion: v9\nkind: Other\nzeta: 1\nalpha: 2\n"


def test_free_mappings_keep_the_order_people_gave_them() -> None:
    text = "kind: Workspace\nspec:\n  env:\n    B: '1'\n    A: '2'\n"

    assert formatted(text) == text


def test_defaults_are_not_filled_in() -> None:
    assert formatted("kind: TTLPolicy\nspec: {}\n") == "kind: TTLPolicy\nspec: {}\n"


def test_block_scalars_move_as_one_piece() -> None:
    made = formatted("""\
        kind: Workspace
        spec:
            memo: |-
                  # not a comment
                    indented more

                  the end
            description: >
              folded
              text
            owner: alice
        """)

    assert made == dedent("""\
        kind: Workspace
        spec:
          owner: alice
          description: >
            folded
            text
          memo: |-
                # not a comment
                  indented more

                the end
        """)


def test_quotes_long_lines_and_other_alphabets_stay_as_they_are() -> None:
    long = "word " * 60 + "end"
    text = f"kind: Workspace\nspec:\n  memo: {long}\n  description: \"ünï 日本 \\t 'x'\"\n"

    made = formatted(text)

    assert f"  memo: {long}\n" in made
    assert "  description: \"ünï 日本 \\t 'x'\"\n" in made


def test_anchors_and_aliases_survive_where_their_order_holds() -> None:
    made = formatted("""\
        kind: Workspace
        spec:
          env: &shared {A: '1'}
          secretEnv: *shared
          owner: alice
        """)

    assert made.endswith("  owner: alice\n  env: &shared {A: '1'}\n  secretEnv: *shared\n")


def test_an_alias_is_never_moved_before_its_anchor() -> None:
    said = refusal("kind: Workspace\nspec:\n  memo: &who alice\n  owner: *who\n")

    assert said == (
        "a.yaml:1: left as it is: an alias would stand before its anchor; write the value out"
    )


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_endings_stay_as_they_are(ending: str) -> None:
    made = formatted(ending.join(["spec: {}", "kind: User # u", "apiVersion: v"]))

    assert made == "".join(
        line + ending for line in ["apiVersion: v", "kind: User # u", "spec: {}"]
    )


def test_a_final_newline_is_added_unless_it_would_change_a_value() -> None:
    assert formatted("kind: User") == "kind: User\n"
    assert formatted("kind: Workspace\nspec:\n  memo: |\n    no end") == (
        "kind: Workspace\nspec:\n  memo: |\n    no end"
    )


def test_a_value_that_ends_the_file_unfinished_is_not_moved() -> None:
    said = refusal("spec:\n  memo: |\n    no end\n  owner: alice\nkind: |\n  Workspace")

    assert "would change what it says" in said


def test_white_space_at_the_ends_of_lines_goes() -> None:
    assert formatted("kind: User  \n \nspec: {}  \n# x \n") == "kind: User\n\nspec: {}\n# x\n"


def test_a_flow_mapping_over_several_lines_is_ordered_in_its_places() -> None:
    made = formatted("kind: TTLPolicy\nspec: {\n  archive: 24h,\n  standby: 3h,\n}\n")

    assert made == "kind: TTLPolicy\nspec: {\n  standby: 3h,\n  archive: 24h,\n}\n"


def test_lists_of_flow_mappings_are_ordered_too() -> None:
    made = formatted("kind: Hub\nspec:\n  webhooks: [{events: [a, b], url: x}, {url: y}]\n")

    assert "webhooks: [{url: x, events: [a, b]}, {url: y}]" in made


def test_keys_written_with_a_question_mark_hold_their_mapping() -> None:
    assert "'? key'" in refusal("? kind\n: Workspace\n? apiVersion\n: v\n")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "- a\n- b\n", "word\n", "---\n---\n"])
def test_what_is_no_spec_document_is_left_alone(text: str) -> None:
    assert formatted(text) == text


def test_a_byte_order_mark_is_kept() -> None:
    assert format_text("\ufeffspec: {}\nkind: User\n") == "\ufeffkind: User\nspec: {}\n"


def test_broken_yaml_is_told_with_its_place_and_line() -> None:
    with pytest.raises(SpecsInvalid) as caught:
        format_text("kind: User\nspec: [1, 2\nmore: 1\n")

    problem = caught.value.problems[0]
    assert (problem.place.line, problem.excerpt) == (3, "more: 1")
    assert problem.message.startswith("not valid YAML: ")


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(SpecsInvalid, match="1 problem"):
        format_content(b"kind: \xff\n", "a.yaml")


def test_a_line_that_may_hold_a_secret_is_not_repeated() -> None:
    with pytest.raises(SpecsInvalid) as caught:
        format_text('kind: User\nspec:\n  passwordHash: "hunter2\n')

    assert "hunter2" not in f"{caught.value.problems[0]!r}"


def test_bombs_are_refused_before_they_go_off() -> None:
    laughs = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)]

    assert "nested deeper" in refusal("kind: User\nspec: " + "[" * 500 + "]" * 500)
    assert "aliases" in refusal("".join(["a0: &a0 lol\n", *laughs, "kind: User\n"]))
