"""Bad input of every kind: a clear message at the right place, and never half a spec set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.errors import SpecsInvalid
from codehub.specs import caps
from codehub.specs.load import load_directory
from tests.unit.spec_world import hub, problems_in, problems_of, workspace, write

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: codehub.dev/v1\n"
USER = HEAD + "kind: User\nmetadata: {name: bob}\nspec: "
LONG = "x" * 41
DNS = "must be a DNS label (small letters, digits, and '-' between them)"

WHOLE = [
    ("not YAML", "}{", "1:1: not valid YAML: "),
    ("prose", "hello world", "1:1: a document must be a mapping"),
    ("tabs", workspace(spec="\timage: i\n"), "7:1: not valid YAML: tabs cannot indent"),
    ("NUL", b"a: b\0\n", "1:5: a NUL byte: this is not a text file"),
    ("bad UTF-8", b"a: 1\nb: \xc3\x28\n", "2:4: not text in UTF-8"),
    ("duplicate key", workspace(spec="  image: i\n  image: j\n"), '8:3: the key "image" is given'),
    ("nesting", "a: " + "[" * 100, "1:35: nested deeper than 32 levels"),
    ("unknown kind", HEAD + "kind: Wokspace\n", '2:7: kind: unknown kind "Wokspace", did you mean'),
    ("no kind", HEAD, "1:1: kind: is required: Workspace, TTLPolicy, User or Hub"),
    ("odd kind", HEAD + "kind: {a: b}\n", "2:7: kind: must be Workspace, TTLPolicy, User or Hub"),
    (
        "apiVersion",
        "apiVersion: v1\nkind: User\n",
        '1:13: apiVersion: unknown apiVersion "v1"; known: codehub.dev/v1',
    ),
    ("no metadata", HEAD + "kind: User\n", "1:1: metadata: is required"),
    ("no name", HEAD + "kind: User\nmetadata: {}\n", "3:1: metadata.name: is required"),
    ("long name", workspace(LONG), "4:9: metadata.name: must be at most 40 characters, not 41"),
    ("name", workspace("Payments_API"), f'4:9: metadata.name: {DNS}, not "Payments_API"'),
    ("name with a dot", workspace("a.b"), f'4:9: metadata.name: {DNS}, not "a.b"'),
    ("name with a dash", workspace("-a"), f'4:9: metadata.name: {DNS}, not "-a"'),
    ("number as name", workspace("12"), '4:9: metadata.name: must be text: quote it, as in "12"'),
    (
        "misplaced",
        workspace(spec="  image: i\n") + "port: 5\n",
        '8:1: port: unknown field "port"; it',
    ),
    (
        "weak hash",
        USER + "{passwordHash: x}\n",
        "4:22: spec.passwordHash: must be an argon2id hash",
    ),
    ("role", USER + "{role: root}\n", '4:14: spec.role: must be member or admin, not "root"'),
    ("limit", USER + "{maxRunning: 0}\n", "4:20: spec.maxRunning: must be a whole number from 1"),
    (
        "hook",
        hub("{webhooks: [{url: 'ftp://x'}]}"),
        "4:25: spec.webhooks[0].url: must be an address that starts with http:// or https://",
    ),
    (
        "hook with a password",
        hub("{webhooks: [{url: 'https://me:canary@x/'}]}"),
        "4:25: spec.webhooks[0].url: must not carry a user name or password",
    ),
    (
        "event",
        hub("{webhooks: [{url: 'http://x', events: [error]}]}"),
        "4:46: spec.webhooks[0].events[0]: must be workspace.error, workspace.expiring, "
        "workspace.archived or revision.failed",
    ),
    (
        "event, nearly",
        hub("{webhooks: [{url: 'http://x', events: [workspace.eror]}]}"),
        "4:46: spec.webhooks[0].events[0]: must be workspace.error, workspace.expiring, "
        'workspace.archived or revision.failed, did you mean "workspace.error"?',
    ),
    (
        "hook twice",
        hub("{webhooks: [{url: 'http://x'}, {url: 'http://y'}, {url: 'http://x'}]}"),
        "4:63: spec.webhooks[2].url: is that of spec.webhooks[0] already",
    ),
    (
        "hook name twice",
        hub("{webhooks: [{name: a, url: 'http://x'}, {name: a, url: 'http://y'}]}"),
        "4:54: spec.webhooks[1].name: is that of spec.webhooks[0] already",
    ),
    (
        "hooks without end",
        hub("{webhooks: [" + "".join(f"{{url: 'http://x/{n}'}}, " for n in range(21)) + "]}"),
        "4:18: spec.webhooks: must be at most 20, not 21",
    ),
    (
        "hook without a host",
        hub("{webhooks: [{url: 'http://x:99999/canary'}]}"),
        "4:25: spec.webhooks[0].url: must name a host, and where it names a port, one from 1",
    ),
    (
        "hook without end",
        hub("{webhooks: [{url: 'http://x/" + "canary" * 400 + "'}]}"),
        "4:25: spec.webhooks[0].url: must be at most 2,000 characters",
    ),
]


@pytest.mark.parametrize(("text", "problem"), [row[1:] for row in WHOLE], ids=[r[0] for r in WHOLE])
def test_a_bad_file_is_refused(tmp_path: Path, text: str | bytes, problem: str) -> None:
    first = problems_of(tmp_path, text)[0]
    assert first.startswith(f"f0.yaml:{problem}")


FIELDS = [
    ("desiredSate: RUNNING", '3: spec.desiredSate: unknown field "desiredSate", did you mean "des'),
    ("privileged: true", '3: spec.privileged: unknown field "privileged"'),
    ("labels: {a: b}", '3: spec.labels: unknown field "labels"; it belongs under "metadata"'),
    ("port: http", '9: spec.port: must be a whole number from 1 to 65535, not "http"'),
    ("port: '8080'", '9: spec.port: must be a whole number from 1 to 65535, not "8080"'),
    ("port: 65536", "9: spec.port: must be a whole number from 1 to 65535, not 65536"),
    ("port: true", "9: spec.port: must be a whole number from 1 to 65535, not true"),
    ("port: 80.5", "9: spec.port: must be a whole number from 1 to 65535, not 80.5"),
    ("description: 5", '16: spec.description: must be text: quote it, as in "5"'),
    ("description: [a]", "16: spec.description: must be text, not a list"),
    ("memo:", "8: spec.memo: has no value: give one, or remove it"),
    ('memo: "\\e[31m"', "9: spec.memo: must not contain control characters"),
    ("command: run it", '12: spec.command: must be a list, not "run it"'),
    ("command: [sleep, 60]", '20: spec.command[1]: must be text: quote it, as in "60"'),
    ("inject: yes", '11: spec.inject: must be true or false, not "yes"'),
    ("pinned: 1", "11: spec.pinned: must be true or false, not 1"),
    ("runtime: dockr", '12: spec.runtime: must be docker, process or kubernetes, not "dockr", did'),
    ("runtime: 5", "12: spec.runtime: must be docker, process or kubernetes, not 5"),
    ("desiredState: DELETED", "17: spec.desiredState: must be RUNNING, STANDBY or ARCHIVED, not"),
    ("wakeFrom: RUNNING", '13: spec.wakeFrom: must be STANDBY or ARCHIVED, not "RUNNING"'),
    ("startOn: never", '12: spec.startOn: must be apply or visit, not "never"'),
    ("update: nextstart", '11: spec.update: must be nextStart or immediate, not "nextstart", did'),
    ("resources: 5", "14: spec.resources: must be a mapping, not 5"),
    ("resources: {cpus: two}", "21: spec.resources.cpus: must be a number above 0, at most 1024,"),
    (
        "resources: {cpus: 0}",
        "21: spec.resources.cpus: must be a number above 0, at most 1024, not 0",
    ),
    ("resources: {memory: 4GB}", "23: spec.resources.memory: must be a size (512Mi, 4Gi, 500M)"),
    ("resources: {memroy: 4Gi}", '15: spec.resources.memroy: unknown field "memroy", did you mean'),
    (
        "resources: {pids: 0}",
        "21: spec.resources.pids: must be a whole number from 1 to 4194304, no",
    ),
    ("ttl: 5", '8: spec.ttl: must be text: quote it, as in "5"'),
    ("ttl: {standby: 3 hours}", "18: spec.ttl.standby: must be a duration (90s, 10m, 3h, 7d)"),
    (
        "ttl: {standby: 0s}",
        "18: spec.ttl.standby: must be longer than zero; 'never' switches it of",
    ),
    ("ttl: {archive: -1}", "18: spec.ttl.archive: must be longer than zero"),
    ("ttl: {standbi: 1h}", '9: spec.ttl.standbi: unknown field "standbi", did you mean "standby"?'),
    (
        "ttl: {busyCpu: 25}",
        "18: spec.ttl.busyCpu: must be a percentage of one core such as 25%, or",
    ),
    ("ttl: {activity: all}", "19: spec.ttl.activity: must be auto, traffic or connections, not"),
    ("env: [A]", "8: spec.env: must be a mapping"),
    ("env: {A: 5}", "12: spec.env.A: must be text: quote it"),
    ("env: {A: true}", "12: spec.env.A: must be text: quote it"),
    ("env: {A: }", '12: spec.env.A: has no value: write "" for an empty one, or remove it'),
    ("env: {A-B: x}", "9: spec.env.A-B: a variable's name is made of letters, digits and '_'"),
    ("env: {PORT: '1'}", "9: spec.env.PORT: is set by the hub and cannot be declared"),
    ("env: {HOME: /root}", "9: spec.env.HOME: is set by the hub and cannot be declared"),
    ("env: {CODEHUB_BASE_PATH: x}", "9: spec.env.CODEHUB_BASE_PATH: is set by the hub"),
    ("secretEnv: {PORT: x}", "15: spec.secretEnv.PORT: is set by the hub and cannot be declared"),
    ("secretEnv: {HOME: x}", "15: spec.secretEnv.HOME: is set by the hub and cannot be declared"),
    ("secretEnv: {A: ../../etc/shadow}", "18: spec.secretEnv.A: must be the name of a secret"),
    ("secretEnv: {A: /etc/shadow}", "18: spec.secretEnv.A: must be the name of a secret"),
    ("secretEnv: {A: ..}", "18: spec.secretEnv.A: must be the name of a secret"),
    ("secretEnv: {A: ''}", "18: spec.secretEnv.A: must be the name of a secret"),
    ("renamedFrom: Old", "16: spec.renamedFrom: must be a DNS label"),
    ("renamedFrom: api", "16: spec.renamedFrom: is the workspace's own name"),
]


@pytest.mark.parametrize(("line", "problem"), FIELDS, ids=[row[0] for row in FIELDS])
def test_a_bad_field_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    problems = problems_of(tmp_path, workspace(spec=f"  image: i\n  {line}\n"))
    assert len(problems) == 1
    assert problems[0].startswith(f"f0.yaml:8:{problem}")


@pytest.mark.parametrize("image", ["''", "a b", "-v", "../x", "é", "a" * 513])
def test_a_bad_image_is_refused(tmp_path: Path, image: str) -> None:
    (problem,) = problems_of(tmp_path, workspace(spec=f"  image: {image}\n"))
    assert problem.startswith("f0.yaml:7:10: spec.image: must be an image such as")


@pytest.mark.parametrize(
    "metadata",
    ["{name: a, labels: {a: 5}}", "{name: a, labels: {'=': b}}", "{name: a, labels: [b]}"],
)
def test_labels_are_text(tmp_path: Path, metadata: str) -> None:
    text = f"{HEAD}kind: Workspace\nmetadata: {metadata}\nspec: {{owner: alice, image: i}}\n"
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith("f0.yaml:3:")
    assert "metadata.labels" in problem


def test_a_problem_shows_its_line(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace(spec="  image: i\n  prot: 80  # web\n")})
    (problem,) = problems_in(tmp_path)
    assert problem.excerpt == "  prot: 80  # web"
    assert problem.field == "spec.prot"


def test_an_alias_bomb_is_refused_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (problem,) = problems_of(tmp_path, "\n".join(lines))
    assert "more than 32 aliases: write the values out" in problem


def test_a_200_mb_file_is_refused_by_its_size(tmp_path: Path) -> None:
    write(tmp_path, {})
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(200 * 10**6)
    (problem,) = problems_in(tmp_path)
    assert str(problem) == (
        f"{tmp_path}/huge.yaml: 191 MiB is too large for a spec file (at most 1.0 MiB)"
    )


def test_all_files_together_have_a_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "TOTAL_BYTES", 1 << 20)
    padding = "# " + "x" * 400_000 + "\n"
    write(tmp_path, {f"{n}.yaml": padding for n in range(5)})
    (problem,) = problems_in(tmp_path)
    assert str(problem) == f"{tmp_path}/2.yaml: more than 1.0 MiB in all spec files: not read"


def test_the_number_of_files_has_a_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "FILES", 5)
    write(tmp_path, {f"{n}.yaml": "" for n in range(5)})
    (problem,) = problems_in(tmp_path)
    assert str(problem) == f"{tmp_path}: more than 5 spec files"


def test_a_file_of_garbage_does_not_fill_the_log(tmp_path: Path) -> None:
    fields = "".join(f"  f{n}: 1\n" for n in range(5000))
    problems = problems_of(tmp_path, workspace(spec="  image: i\n" + fields))
    assert len(problems) == caps.PROBLEMS_PER_FILE + 1
    assert problems[0] == "f0.yaml: more than 50 problems in this file; the first are shown"


def test_a_missing_directory_is_no_empty_hub(tmp_path: Path) -> None:
    (problem,) = problems_in(tmp_path / "nowhere")
    assert str(problem) == f"{tmp_path}/nowhere: there is no such directory"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "specs").write_text("")
    (problem,) = problems_in(tmp_path / "specs")
    assert str(problem) == f"{tmp_path}/specs: is not a directory"


@pytest.mark.parametrize(
    "files", [{}, {"a.yaml": ""}, {"a.yml": "# nothing\n---\n---\n"}, {"a.txt": "x"}]
)
def test_a_directory_that_declares_nothing_is_no_empty_hub(
    tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SpecsInvalid) as caught:
        load_directory(tmp_path)
    assert "declares nothing" in str(caught.value.problems[0])
    assert "codehub init" in (caught.value.hint or "")


SECRETS = [
    workspace(spec="  image: i\n  env: {A: 5, B: canary, PORT: canary, C: [canary]}\n"),
    workspace(spec="  image: i\n  env:\n    A: canary\n   B: canary\n"),
    workspace(spec="  image: i\n  env:\n  - name: A\n    value: canary\n"),
    workspace(spec="  image: i\n  secretEnv: {A: canary/canary}\n"),
    workspace(spec="  image: i\n  secretEnv: canary\n"),
    workspace(spec="  image: i\n  env: canary\n"),
    workspace(spec="  image: i\n  password: canary\n"),
    workspace(spec="  image: i\n  enviroment: {A: canary}\n"),
    workspace(spec="  image: i\n  owner: $argon2id$canary\n"),
    workspace(spec='  image: i\n  env: {A: "canary\n'),
    f"{USER}{{passwordHash: canary, role: x}}\n",
    f"{USER}{{passwordHash: [canary]}}\n",
    f"{USER}{{passwordHash: canary: canary}}\n",
    hub("{webhooks: [{url: 'https://me:canary@x', secret: canary/x, token: canary}]}"),
    hub("{webhooks: canary}"),
    b"env: {A: canary\xff}\n",
    b"env: {A: canary\0}\n",
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_is_repeated(tmp_path: Path, text: str | bytes) -> None:
    write(tmp_path, {"a.yaml": text})
    told = "".join(f"{each} {each.excerpt}" for each in problems_in(tmp_path))
    assert "canary" not in told
