"""Settings come from the environment or a file, and a wrong one is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from codehub.config import Settings, load_settings
from codehub.errors import UsageError
from codehub.model.workspace import Runtime
from codehub.wiring import HubChoice, enabled_runtimes, find_hub

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "CODEHUB_DATA", "RUNTIME_ENABLED", "TTL_STANDBY_SECONDS"):
        monkeypatch.delenv(name, raising=False)


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "codehub.toml").write_text("ttl_standby_seconds = 60\nttl_archive_seconds = 70\n")
    monkeypatch.setenv("TTL_STANDBY_SECONDS", "90")
    settings = load_settings()
    assert (settings.ttl_standby_seconds, settings.ttl_archive_seconds) == (90, 70)


def test_a_wrong_setting_is_named_and_its_value_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTL_STANDBY_SECONDS", "s3cret")
    with pytest.raises(UsageError, match="TTL_STANDBY_SECONDS") as raised:
        load_settings()
    assert "s3cret" not in raised.value.message


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "DOCKER_NETWORK",
            "host",
            "must be a network of its own: workspaces cannot share that one",
        ),
        ("AUTH_TRUSTED_ADDRESSES", "x", "must be addresses or networks such as 10.0.0.0/8"),
        ("RUNTIME_ENABLED", "process,podman", "must be 'docker', 'process' or 'kubernetes'"),
        ("TTL_STANDBY_SECONDS", "1.5", "must be a whole number"),
        ("S3_READ_TIMEOUT", "soon", "must be a number"),
        ("S3_READ_TIMEOUT", "3601", "must be less than or equal to 3600"),
        ("METRICS_LISTEN", "9464", "must be written like 127.0.0.1:9464"),
        ("LOG_FORMAT", "xml", "must be 'console' or 'json'"),
    ],
)
def test_what_is_wrong_with_a_setting_is_said_plainly(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as raised:
        load_settings()
    assert raised.value.message == f"setting {name}: {words}"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_no_setting_is_refused_in_anothers_words(name: str, tmp_path: Path) -> None:
    (tmp_path / "codehub.toml").write_text(f"{name} = {{wrong = 1}}\n")
    with pytest.raises(UsageError) as raised:
        load_settings()
    assert raised.value.message.startswith(f"setting {name.upper()}: must be ")
    assert not re.search("input|valid|value error|<class", raised.value.message.lower())


def test_a_broken_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "codehub.toml").write_text("not toml")
    with pytest.raises(UsageError, match="settings cannot be read"):
        load_settings()


def test_the_database_address_does_not_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:s3cret@h/d")
    assert "s3cret" not in repr(load_settings())


def test_a_hub_is_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_hub(None, None, load_settings()).url is None
    monkeypatch.setenv("DATABASE_URL", "postgresql://env/d")
    settings = load_settings()
    assert find_hub(None, None, settings).url == "postgresql://env/d"
    assert find_hub(None, tmp_path / "mine", settings) == HubChoice(tmp_path / "mine")
    assert find_hub("postgresql://option/d", None, settings).url == "postgresql://option/d"
    with pytest.raises(UsageError, match="postgresql://"):
        find_hub("http://hub", None, settings)


def test_processes_need_asking_for_on_a_shared_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, own = HubChoice(tmp_path, "postgresql://h/d"), HubChoice(tmp_path)
    settings = load_settings()
    assert enabled_runtimes(shared, settings) == {Runtime.DOCKER}
    assert enabled_runtimes(own, settings) == {Runtime.DOCKER, Runtime.PROCESS}
    monkeypatch.setenv("RUNTIME_ENABLED", "process, docker")
    asked = load_settings()
    assert enabled_runtimes(shared, asked) == {Runtime.DOCKER, Runtime.PROCESS}


@pytest.mark.parametrize("network", ["host", "none", "default", "container:x"])
def test_workspaces_never_share_the_machines_network(
    network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_NETWORK", network)
    with pytest.raises(UsageError, match="cannot share that one"):
        load_settings()
