"""fmt keeps every comment, and each goes where its field goes."""

from __future__ import annotations

from collections import Counter
from textwrap import dedent

from codehub.specs.comments import count_comments
from tests.unit.formatting import formatted, refusal


def test_a_comment_at_the_end_of_a_line_moves_with_its_field() -> None:
    made = formatted("""\
        kind: Workspace
        spec:  # all of it
          image: x  # from the registry
          owner: alice  # since May
        """)

    assert made == dedent("""\
        kind: Workspace
        spec:  # all of it
          owner: alice  # since May
          image: x  # from the registry
        """)


def test_comments_above_a_field_move_with_it() -> None:
    made = formatted("""\
        kind: Workspace
        spec:
          # about the image
          # in two lines
          image: x

          # about the owner
          owner: alice
        """)

    assert made == dedent("""\
        kind: Workspace
        spec:
          # about the owner
          owner: alice

          # about the image
          # in two lines
          image: x
        """)


def test_a_documents_opening_comments_stay_on_top() -> None:
    made = formatted("""\
        # yaml-language-server: $schema=.codehub.schema.json
        # The people.
        kind: User
        apiVersion: codehub.dev/v1
        """)

    assert made.splitlines() == [
        "# yaml-language-server: $schema=.codehub.schema.json",
        "# The people.",
        "apiVersion: codehub.dev/v1",
        "kind: User",
    ]


def test_comments_between_and_behind_documents_stay_where_they_are() -> None:
    made = formatted("""\
        kind: User
        apiVersion: codehub.dev/v1
        # the end of the first
        --- # the second begins
        # on top of the second
        kind: Hub
        apiVersion: codehub.dev/v1
        ...
        # the end of the file
        """)

    assert made == dedent("""\
        apiVersion: codehub.dev/v1
        kind: User
        # the end of the first
        --- # the second begins
        # on top of the second
        apiVersion: codehub.dev/v1
        kind: Hub
        ...
        # the end of the file
        """)


def test_a_commented_out_last_field_stays_with_its_mapping() -> None:
    made = formatted("""\
        spec:
          owner: alice
          # protect: true
        kind: Workspace
        # done
        """)

    assert made == dedent("""\
        kind: Workspace
        spec:
          owner: alice
          # protect: true
        # done
        """)


def test_a_comment_deep_below_a_list_stays_with_the_list() -> None:
    made = formatted("""\
        kind: Workspace
        spec:
          command:
            - serve
            # - --verbose
          owner: alice
        """)

    assert made.endswith("  command:\n    - serve\n    # - --verbose\n")


def test_fields_inside_a_list_are_ordered_and_the_dash_stays_in_front() -> None:
    made = formatted("""\
        kind: Hub
        spec:
          webhooks:
            - events: [workspace.error]  # only these
              # where to
              url: https://a.example
            - secret: s
              url: https://b.example
        """)

    assert made == dedent("""\
        kind: Hub
        spec:
          webhooks:
            # where to
            - url: https://a.example
              events: [workspace.error]  # only these
            - url: https://b.example
              secret: s
        """)


def test_indentation_becomes_two_columns_and_comments_follow() -> None:
    made = formatted("""\
        kind: Workspace
        spec:
            # who
            owner: alice
            command:
            - serve
            -   --fast   # quick
            env:
                   # the language
                   LANG: C
        """)

    assert made == dedent("""\
        kind: Workspace
        spec:
          # who
          owner: alice
          command:
            - serve
            -   --fast   # quick
          env:
            # the language
            LANG: C
        """)


def test_a_tab_that_readers_disagree_about_holds_the_file() -> None:
    assert "replace tabs" in refusal("spec: {}\t\nkind: User\n")


def test_a_comment_inside_a_flow_mapping_holds_it_and_says_so() -> None:
    said = refusal("""\
        kind: TTLPolicy
        spec: {archive: 24h, # long
               standby: 3h}
        """)

    assert said.startswith("a.yaml:2: left as it is: a comment inside {…}")


def test_comments_are_counted_wherever_they_stand() -> None:
    text = """\
        # top
        kind: User # behind
        spec: # above a block
          memo: | # behind the bar
            # inside a text
          displayName: "# in quotes"
          x: {a: 1, # in a flow
              b: 2} # behind a flow
          # deep
        # end
        --- # behind a marker
        # top
        """

    assert count_comments(dedent(text)) == Counter(
        {
            "# top": 2,
            "# behind": 1,
            "# above a block": 1,
            "# behind the bar": 1,
            "# in a flow": 1,
            "# behind a flow": 1,
            "# deep": 1,
            "# end": 1,
            "# behind a marker": 1,
        }
    )
