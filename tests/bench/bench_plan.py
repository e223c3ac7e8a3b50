"""Plan and apply beside terraform's, whole processes from a cold start.

    python -m tests.bench.bench_plan [--files 1000] [--large 10000] [--runs 5]

As many one-document spec files as there are one-resource files of `terraform_data`. Prints both
figures and their ratio; without terraform, our own alone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from codehub.embedded.postgres import EmbeddedPostgres
from tests.bench.measure import Measured, codehub, measure, median

HEAD = """apiVersion: codehub.dev/v1
kind: {kind}
metadata: {{name: {name}}}
"""
WORKSPACE = """spec:
  owner: alice
  description: Workspace {number} of many
  image: registry.example/code:{number}
  port: 8080
  env: {{LANG: C.UTF-8, NUMBER: "{number}"}}
  resources: {{cpus: 2, memory: 4Gi}}
  ttl: interactive
"""
TERRAFORM = 'resource "terraform_data" "r{number}" {{\n  input = "value {number}"\n}}\n'


@dataclass(frozen=True, slots=True)
class Hub:
    """A fresh directory of specs and the database they are applied to."""

    root: Path
    url: str

    def run(self, *words: str) -> Measured:
        return measure(codehub(*words), cwd=self.root, env={"DATABASE_URL": self.url})


def write_specs(root: Path, count: int) -> None:
    """`count` workspaces, one in each file, and what they refer to."""
    specs = root / "specs"
    specs.mkdir(parents=True)
    user = HEAD.format(kind="User", name="alice") + "spec: {displayName: Alice}\n"
    policy = HEAD.format(kind="TTLPolicy", name="interactive") + "spec: {standby: 3h}\n"
    (specs / "people.yaml").write_text(user + "---\n" + policy)
    for number in range(count):
        text = HEAD.format(kind="Workspace", name=f"ws-{number}")
        (specs / f"ws-{number}.yaml").write_text(text + WORKSPACE.format(number=number))


def write_terraform(root: Path, count: int) -> None:
    root.mkdir(parents=True)
    for number in range(count):
        (root / f"r{number}.tf").write_text(TERRAFORM.format(number=number))


def measure_codehub(root: Path, count: int, runs: int) -> tuple[Measured, Measured]:
    """How long applying `count` new specs takes, and then a plan that changes nothing."""
    write_specs(root, count)
    server = EmbeddedPostgres(root / "postgres")
    hub = Hub(root, server.start())
    try:
        hub.run("db", "upgrade")
        applied = hub.run("apply", "--yes")
        hub.run("plan", "--exit-code")  # fails unless it is a no-op
        return applied, median([hub.run("plan") for _ in range(runs)])
    finally:
        server.stop()


def measure_terraform(root: Path, count: int, runs: int) -> tuple[Measured, Measured]:
    write_terraform(root, count)
    measure(["terraform", "init", "-input=false"], cwd=root)
    applied = measure(["terraform", "apply", "-auto-approve", "-input=false"], cwd=root)
    plan = ["terraform", "plan", "-input=false", "-detailed-exitcode"]
    return applied, median([measure(plan, cwd=root) for _ in range(runs)])


def compare(label: str, ours: Measured, theirs: Measured | None) -> None:
    line = f"{label:<28} codehub {ours.seconds:7.2f} s {ours.peak_mib:6.0f} MiB"
    if theirs is not None:
        ratio = ours.seconds / theirs.seconds
        line += f"   terraform {theirs.seconds:7.2f} s {theirs.peak_mib:6.0f} MiB"
        line += f"   ratio {ratio:.2f}"
    print(line, flush=True)


def bench(files: int, large: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        applied, planned = measure_codehub(root / "ours", files, runs)
        peer = None
        if shutil.which("terraform"):
            peer = measure_terraform(root / "theirs", files, runs)
        compare(f"no-op plan of {files}", planned, peer and peer[1])
        compare(f"apply of {files} new", applied, peer and peer[0])
        if large:
            more_applied, more = measure_codehub(root / "large", large, 1)
            compare(f"no-op plan of {large}", more, None)
            compare(f"apply of {large} new", more_applied, None)
            growth = (more.seconds / planned.seconds) / (large / files)
            print(f"{large / files:.0f} times the files, time grows {growth:.2f} of linear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--large", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    bench(given.files, given.large, given.runs)


if __name__ == "__main__":
    main()
