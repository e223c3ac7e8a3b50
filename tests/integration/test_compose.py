"""`deploy/compose` and its how-to fit together, and fit what CodeHub is."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import yaml

from codehub.config import Settings
from codehub.render.pages import GENERIC
from codehub.wiring import PAGES
from tests.caddy import require_caddy
from tests.conftest import require
from tests.contract.docker_engine import SOCKET
from tests.integration.command_line import run_codehub
from tests.integration.compose_file import (
    CADDYFILE,
    COMPOSE,
    DOCKERFILE,
    EXAMPLE_ENV,
    HOW_TO,
    ROOT,
    filled_in,
    names,
    raw,
    services,
    variables,
    with_private_images,
    words,
)
from tests.integration.compose_world import IMAGE_USER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.compose_file import Service

VALUES = filled_in()
SERVICES = services(VALUES)
HUB = {name: each for name, each in SERVICES.items() if each["image"].startswith("codehub:")}
"""Those that run CodeHub itself."""
COORDINATORS = [name for name in HUB if name.startswith("coordinator-")]
PROXIES = [name for name in HUB if name.startswith("proxy-")]
FOREIGN = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"}
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_pinned_bounded_and_looked_after(name: str) -> None:
    service = SERVICES[name]

    repository, _, tag = service["image"].rpartition(":")
    assert repository
    assert service in HUB.values() or re.match(r"v?\d+\.\d+", tag), "a version, not a moving name"
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert all(service[limit] for limit in ("mem_limit", "cpus", "pids_limit"))
    assert "no-new-privileges:true" in service["security_opt"]
    ends_by_itself = name == "upgrade"
    assert service["restart"] == ("no" if ends_by_itself else "unless-stopped")
    assert ("healthcheck" in service) is not ends_by_itself


def test_services_and_volumes_that_are_named_exist() -> None:
    volumes = [volume for each in SERVICES.values() for volume in each.get("volumes", [])]

    assert {name for each in SERVICES.values() for name in each.get("depends_on", {})} <= set(
        SERVICES
    )
    named = {each["source"] for each in volumes if each["type"] == "volume"}
    assert named == set(raw()["volumes"])
    binds = [each for each in volumes if each["type"] == "bind"]
    assert binds
    assert not any(each["bind"]["create_host_path"] for each in binds), "a wrong path must be loud"
    local = {each["source"] for each in binds if each["source"].startswith("./")}
    assert all((COMPOSE / source).is_file() for source in local)


def test_only_caddy_can_be_reached_from_other_machines() -> None:
    published = {port for each in SERVICES.values() for port in each.get("ports", [])}
    on_the_machine = {name for name, each in SERVICES.items() if "network_mode" in each}

    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert on_the_machine == {*HUB, "caddy"}
    for name in PROXIES:
        assert "--host" not in words(SERVICES[name]), "loopback is what it listens on by itself"


def test_only_coordinators_have_the_engine_and_root() -> None:
    def sources(service: Service) -> set[str]:
        return {each["source"] for each in service.get("volumes", [])}

    with_engine = {name for name, each in SERVICES.items() if SOCKET in sources(each)}
    assert with_engine == set(COORDINATORS)
    assert len(COORDINATORS) == 2
    assert {name for name, each in HUB.items() if "user" in each} == with_engine
    assert all(each["read_only"] and each["cap_drop"] == ["ALL"] for each in HUB.values())
    user = re.search(r"useradd .*--uid (\d+)", DOCKERFILE.read_text())
    assert user
    assert IMAGE_USER.startswith(user[1])
    assert re.search(r"^USER codehub$", DOCKERFILE.read_text(), re.MULTILINE)


def test_the_same_home_paths_inside_and_outside() -> None:
    for name in COORDINATORS:
        homes = [
            each for each in HUB[name]["volumes"] if each["source"] == VALUES["ENGINE_VOLUMES"]
        ]
        assert [each["target"] for each in homes] == [VALUES["ENGINE_VOLUMES"]]
        assert not homes[0].get("read_only")


def test_a_private_registry_takes_a_few_comment_signs() -> None:
    changed = with_private_images()["services"]

    for name in COORDINATORS:
        config = changed[name]["environment"]["DOCKER_CONFIG"]
        (login,) = [each for each in changed[name]["volumes"] if each["target"] == config]
        assert login["read_only"]
        assert login["source"] == "./registry"
        assert len(changed[name]["volumes"]) == len(raw()["services"][name]["volumes"]) + 1
    (block,) = [each for each in BLOCK.findall(HOW_TO.read_text()) if "login" in each]
    assert "--config registry" in block
    hidden = DOCKERFILE.with_name(".gitignore").read_text().splitlines()
    assert {"/.env", "/registry/"} <= set(hidden)


def test_no_secret_has_a_default() -> None:
    example = variables(EXAMPLE_ENV.read_text())
    secret = re.compile(r"PASSWORD|SECRET|KEY|AUTH|RPC")

    assert set(example) == names()
    assert {name for name, value in example.items() if value} == {"ENGINE_VOLUMES"}
    for service in raw()["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not secret.search(name) or re.fullmatch(r"\$\{\w+:\?.+\}", value), name
            password = urlsplit(value).password if "://" in value else None
            assert password is None or password.startswith("${"), name


def test_the_how_to_fills_in_the_secrets(tmp_path: Path) -> None:
    (making,) = [block for block in BLOCK.findall(HOW_TO.read_text()) if "openssl" in block]
    shutil.copy(EXAMPLE_ENV, tmp_path)

    script = making.replace("cd deploy/compose\n", "")
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, timeout=60)

    made = variables((tmp_path / ".env").read_text())
    left = {name for name, value in made.items() if not value}
    assert left == {"CODEHUB_TAG", "SPECS_DIR", "HUB_DOMAIN", "ACME_EMAIL"}
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    filled = [made[name] for name in made if name not in left and name != "ENGINE_VOLUMES"]
    assert len(set(filled)) == len(filled) == 5
    assert all(re.fullmatch(r"(GK)?[0-9a-f]{32,64}", value) for value in filled)


@pytest.mark.parametrize("name", HUB)
def test_its_command_lines_are_those_of_codehub(name: str, tmp_path: Path) -> None:
    checked = [words(HUB[name]), HUB[name].get("healthcheck", {}).get("test", [])[1:]]

    for command in (each for each in checked if each[:1] == ["codehub"]):
        ran = run_codehub(*command[1:], "--help", cwd=tmp_path)
        assert ran.code == 0, ran


@pytest.mark.parametrize("name", HUB)
def test_its_environment_is_made_of_settings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = {field.upper() for field in Settings.model_fields}
    given = HUB[name]["environment"]
    assert given.keys() <= known | FOREIGN

    for each in known:
        monkeypatch.delenv(each, raising=False)
    for each, value in given.items():
        monkeypatch.setenv(each, value)

    assert Settings().model_fields_set == {each.lower() for each in given.keys() & known}


def test_addresses_lead_to_the_services() -> None:
    environment = HUB["coordinator-1"]["environment"]
    s3 = SERVICES["s3"]["environment"]
    garage = tomllib.loads((COMPOSE / "garage.toml").read_text())

    for setting, service in (
        ("DATABASE_URL", "postgres"),
        ("REDIS_URL", "redis"),
        ("S3_ENDPOINT_URL", "s3"),
    ):
        at = urlsplit(environment[setting]).port
        assert SERVICES[service]["ports"] == [f"127.0.0.1:{at}:{at}"]
    database = urlsplit(environment["DATABASE_URL"])
    assert SERVICES["postgres"]["environment"] == {
        "POSTGRES_USER": database.username,
        "POSTGRES_PASSWORD": database.password,
        "POSTGRES_DB": database.path.removeprefix("/"),
    }
    assert (
        urlsplit(environment["REDIS_URL"]).password
        == (SERVICES["redis"]["environment"]["REDISCLI_AUTH"])
    )
    assert urlsplit(environment["ARCHIVE_STORE_URL"]).netloc == s3["GARAGE_DEFAULT_BUCKET"]
    assert environment["AWS_ACCESS_KEY_ID"] == s3["GARAGE_DEFAULT_ACCESS_KEY"]
    assert environment["AWS_SECRET_ACCESS_KEY"] == s3["GARAGE_DEFAULT_SECRET_KEY"]
    assert environment["S3_REGION"] == garage["s3_api"]["s3_region"]
    assert garage["s3_api"]["api_bind_addr"].endswith(":3900")
    assert garage["data_fsync"]
    assert garage["metadata_fsync"], "a home goes as soon as its archive was read back"
    for name in HUB.keys() - {"upgrade"}:
        own = HUB[name]["environment"]
        assert {key: own[key] for key in ("DATABASE_URL", "REDIS_URL")}.items() <= (
            environment.items()
        )


def test_caddy_leads_to_the_proxies() -> None:
    text = re.sub(r"#.*", "", CADDYFILE.read_text())
    upstreams = re.search(r"reverse_proxy (.+) \{", text)
    ports = [words(HUB[name])[-1] for name in PROXIES]

    assert upstreams
    assert upstreams[1].split() == [f"127.0.0.1:{port}" for port in ports]
    for name, port in zip(PROXIES, ports, strict=True):
        assert f"('127.0.0.1', {port})" in " ".join(HUB[name]["healthcheck"]["test"])
    caddy = SERVICES["caddy"]
    assert set(re.findall(r"\{\$(\w+)\}", text)) == caddy["environment"].keys()
    assert urlsplit(caddy["healthcheck"]["test"][-1]).netloc in text
    assert text.count("{") == text.count("}")


def test_caddy_itself_takes_its_file(tmp_path: Path) -> None:
    command = [require_caddy(), "validate", "--adapter", "caddyfile", "--config", str(CADDYFILE)]
    given = {"HUB_DOMAIN": "hub.localhost", "ACME_EMAIL": "a@localhost", "HOME": str(tmp_path)}
    subprocess.run(command, env=given, check=True, timeout=60)


def test_the_page_that_caddy_shows_is_one_that_coordinators_write() -> None:
    root = re.search(r"root \* (\S+)", CADDYFILE.read_text())
    page = re.search(r"rewrite \* /(\S+)", CADDYFILE.read_text())

    assert root
    assert page
    (data,) = [each for each in SERVICES["caddy"]["volumes"] if each["source"] == "codehub-data"]
    assert root[1] == f"{data['target']}/{PAGES}"
    assert page[1] in GENERIC


def test_the_image_is_made_of_all_that_a_wheel_needs() -> None:
    text = DOCKERFILE.read_text()
    copied = {
        name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()
    }
    let_in = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]

    assert copied >= {"pyproject.toml", project["project"]["readme"], *wheel["packages"]}
    assert copied >= set(wheel["force-include"])
    assert {name.removeprefix("!") for name in let_in if name.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_example_specs_are_ready_to_use(tmp_path: Path) -> None:
    specs = str(COMPOSE / "specs")
    settings = {"RUNTIME_ENABLED": HUB["coordinator-1"]["environment"]["RUNTIME_ENABLED"]}

    assert run_codehub("validate", specs, cwd=tmp_path).code == 0
    assert run_codehub("fmt", specs, "--check", cwd=tmp_path).code == 0
    plan = run_codehub("plan", specs, cwd=tmp_path, env=settings)
    assert plan.code == 0, plan
    assert "5 to create" in plan.out


def test_compose_itself_takes_the_file(tmp_path: Path) -> None:
    """Debian's compose too, which is older than two words of the file and is not shown those."""
    command, text = a_compose()
    require("compose", command is not None, "there is neither 'docker compose' nor docker-compose")
    assert command is not None
    shutil.copytree(COMPOSE, tmp_path, dirs_exist_ok=True)
    file, env = tmp_path / "compose.yaml", tmp_path / ".env"
    file.write_text(text)
    env.write_text("".join(f"{name}={value}\n" for name, value in VALUES.items()))

    def config() -> subprocess.CompletedProcess[str]:
        asked = [*command, "--file", str(file), "--env-file", str(env), "config"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=60, cwd=tmp_path)

    taken = config()
    assert taken.returncode == 0, taken.stderr
    assert set(yaml.safe_load(taken.stdout)["services"]) == set(SERVICES)

    env.write_text("")
    refused = config()
    assert refused.returncode != 0
    assert "set it in .env" in refused.stderr


def a_compose() -> tuple[list[str] | None, str]:
    """The command of this machine's compose, and the file as that one can read it."""
    text = (COMPOSE / "compose.yaml").read_text()
    docker, old = shutil.which("docker"), shutil.which("docker-compose")
    if docker is not None:
        asked = subprocess.run([docker, "compose", "version"], capture_output=True, timeout=60)
        if asked.returncode == 0:
            return [docker, "compose"], text
    if old is None:
        return None, text
    older = re.sub(r"^name: codehub\n", "", text, flags=re.MULTILINE)
    return [old], re.sub(r"^ +bind: \{create_host_path: false\}\n", "", older, flags=re.MULTILINE)


def test_the_how_to_knows_the_usual_time_between_collections() -> None:
    assert Settings.model_fields["coordinator_gc_interval"].default == 4 * 3600
    assert "collections of archives, which happen every four hours." in HOW_TO.read_text()


def test_the_commands_in_the_how_to_exist(tmp_path: Path) -> None:
    text = HOW_TO.read_text()
    lines = [line.strip() for block in BLOCK.findall(text) for line in block.splitlines()]
    inside = re.compile(r"docker compose (?:exec|run)(?: --?\S+| \./\S+)* (\S+) (codehub .+)")
    found = [match for match in map(inside.fullmatch, lines) if match]
    commands = {match[2] for match in found} | set(re.findall(r"`(codehub \w[^`]*)`", text))

    assert len(found) >= 5
    assert {match[1] for match in found} <= set(SERVICES)
    for command in commands:
        ran = run_codehub(*command.split()[1:], "--help", cwd=tmp_path)
        assert ran.code == 0, f"{command}: {ran}"
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])} >= (
        set(SERVICES)
    ), "what happens when each of them dies"
