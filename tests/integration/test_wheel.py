"""What people install: a wheel in an empty environment, away from the source tree."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 540


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ".", cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.timeout(600)
def test_the_wheel_carries_templates_and_specs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "codehub/shipped/templates/plan.html.j2" in names
    assert "codehub/shipped/specs/hub.yaml" in names
    assert any(name.startswith("codehub/store/migrations/versions/0001") for name in names)
    assert not [name for name in names if name.startswith("tests/")]


@pytest.mark.timeout(600)
def test_a_wheel_in_an_empty_environment_works(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    scripts = tmp_path / "venv" / "bin"
    run(scripts / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    codehub = scripts / "codehub"
    assert "specs" in run(codehub, "init", cwd=tmp_path)
    assert "are valid" in run(codehub, "validate", cwd=tmp_path)
    assert "6 to create" in run(codehub, "plan", cwd=tmp_path)
    assert "<!doctype html>" in run(codehub, "plan", "--format", "html", cwd=tmp_path).lower()
