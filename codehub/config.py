"""Settings: the only reader of the environment and of `codehub.toml`.

A name here is an environment variable in capitals (`DATABASE_URL`); `codehub.toml` in the
current directory holds the same names in small letters. The environment wins.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from codehub.errors import UsageError
from codehub.model.workspace import Runtime

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

CONFIG_FILE: Final = "codehub.toml"
MIB: Final = 1024 * 1024

_FORMS: Final = {
    "string_type": "must be text",
    "path_type": "must be a path",
    "frozen_set_type": "must be a list",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
}
_EXAMPLE: Final = re.compile(r"such as `([^`]+)`")
"""In the description of a setting."""


class Settings(BaseSettings):
    """All settings, with their defaults; durations are in seconds."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", toml_file=CONFIG_FILE, env_ignore_empty=True
    )

    database_url: SecretStr | None = Field(
        None, description="The hub's PostgreSQL, as a postgresql:// address."
    )
    codehub_data: Path = Field(
        Path(".codehub"), description="Where the embedded hub of this machine keeps its data."
    )
    codehub_server: str | None = Field(
        None,
        description="The hub that `codehub plan` asks, as the address that browsers use, such as "
        "`https://codehub.example.com`. Needs `CODEHUB_TOKEN`; goes before `DATABASE_URL`.",
    )
    codehub_token: SecretStr | None = Field(
        None, description="The token to show there, made by `codehub token create --scope plan`."
    )
    runtime_enabled: Annotated[frozenset[Runtime] | None, NoDecode] = Field(
        None,
        description="The runtimes that specs may name, separated by commas. Where it is not set: "
        "`docker`, and on an embedded hub `process` too.",
    )
    redis_url: SecretStr | None = Field(None, description="The hub's Redis, as a redis:// address.")
    redis_channel_sse_prefix: str = Field(
        "codehub:sse", description="Before the user id: the Redis channel of one user's changes."
    )
    redis_channel_wake_prefix: str = Field(
        "codehub:wake", description="Before the component: the Redis channel of wake-up calls."
    )
    archive_store_url: SecretStr | None = Field(
        None,
        description="Where archives are kept, as `file:///path` or `s3://bucket/prefix`. Where it "
        "is not set: a directory of the data directory.",
    )
    s3_endpoint_url: str | None = Field(
        None,
        description="The S3 server of an `s3://` store, where it is not Amazon's. Credentials come "
        "from where AWS tools have them: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, "
        "`AWS_PROFILE`, or the machine's role.",
    )
    s3_region: str | None = Field(
        None, description="The bucket's region. Where it is not set: `AWS_REGION`, or `us-east-1`."
    )
    s3_addressing: Literal["auto", "path", "virtual"] = Field(
        "auto",
        description="Where a request names the bucket: `path` (`host/bucket/key`) or `virtual` "
        "(`bucket.host/key`).",
    )
    s3_ca_bundle: Path | None = Field(
        None, description="A file with the certificates of authorities that the S3 server's needs."
    )
    s3_connect_timeout: float = Field(
        10, gt=0, le=3600, description="Seconds to connect to S3, and to get a block of data sent."
    )
    s3_read_timeout: float = Field(
        60, gt=0, le=3600, description="Seconds that S3 may be silent while we wait for it."
    )
    s3_max_attempts: int = Field(
        4, ge=1, le=20, description="How often a request to S3 is tried, with growing pauses."
    )
    s3_part_size: int = Field(
        8 * MIB,
        ge=5 * MIB,
        le=1024 * MIB,
        description="Bytes in one part of an upload to S3. After 5,000 parts they grow, so that "
        "5 TiB fit; where a server wants all of one size, so many must hold the largest archive.",
    )
    s3_upload_threads: int = Field(
        4, ge=1, le=16, description="Parts of one upload to S3 under way at once, and in memory."
    )
    docker_host: str | None = Field(
        None,
        description="The Docker engine, one of this machine, as `unix:///path` or "
        "`tcp://127.0.0.1:port`. Where it is not set: the one at `/var/run/docker.sock`.",
    )
    docker_network: str | None = Field(
        None,
        description="The network for workspaces, made by the engine's operator, who answers for "
        "what they reach in it. Where it is not set: one of the hub's own, on which workspaces do "
        "not see each other.",
    )
    docker_look_timeout: float = Field(
        15, gt=0, le=20, description="Seconds that the engine may take to answer a question."
    )
    docker_act_timeout: float = Field(
        60, gt=0, le=600, description="Seconds that the engine may take to carry out a change."
    )
    secrets_dir: Path | None = Field(
        None,
        description="The directory with one file for each secret that `secretEnv` and webhooks may "
        "name.",
    )
    coordinator_idle_interval: float = Field(
        15, gt=0, description="Seconds between full passes over all workspaces."
    )
    coordinator_active_interval: float = Field(
        1, gt=0, description="Seconds between passes while something is under way."
    )
    coordinator_active_duration: float = Field(
        30, ge=0, description="How long passes stay frequent after a hint."
    )
    coordinator_ttl_interval: float = Field(
        60, gt=0, description="Seconds between two looks for idle workspaces."
    )
    coordinator_gc_interval: float = Field(
        4 * 3600, gt=0, description="Seconds between two collections of unused archives."
    )
    coordinator_webhook_interval: float = Field(
        10, gt=0, description="Seconds between two looks for what webhooks are to be told."
    )
    coordinator_archive_listing_interval: float = Field(
        3600, gt=0, description="Seconds between two listings of all archives."
    )
    coordinator_election_interval: float = Field(
        1, gt=0, description="Seconds between a standby's tries to lead, and the leader's checks."
    )
    coordinator_page_interval: float = Field(
        5, gt=0, description="The shortest time between two renderings of the status pages."
    )
    coordinator_watch_interval: float = Field(
        30, gt=0, description="Seconds between scans of the specs, should no file event come."
    )
    coordinator_watch_quiet: float = Field(
        0.5, ge=0, description="How long the specs must stay unchanged before they are read."
    )
    coordinator_actions: int = Field(
        8, ge=1, description="Operations at work at once, data moves aside."
    )
    coordinator_data_moves: int = Field(
        2, ge=1, description="Archives and restores at work at once."
    )
    operation_retries: int = Field(
        3, ge=0, description="How often a failed operation is tried again before ERROR."
    )
    operation_provisioning_seconds: float = Field(
        60, gt=0, description="Time limit for making an empty home."
    )
    operation_starting_seconds: float = Field(
        120, gt=0, description="Time limit for a start, from the image to the answering port."
    )
    operation_stop_grace_seconds: float = Field(
        10, ge=0, description="What a workspace gets to end by itself before it is killed."
    )
    operation_stopping_seconds: float = Field(
        60, gt=0, description="Time limit for a stop, beyond the grace."
    )
    operation_stall_seconds: float = Field(
        300, gt=0, description="How long an archive or restore may go without progress."
    )
    operation_settled_seconds: float = Field(
        300, ge=0, description="Time in RUNNING after which earlier failures are forgotten."
    )
    operation_backoff_seconds: float = Field(
        2, gt=0, description="The first wait before a failed operation is tried again."
    )
    operation_backoff_max_seconds: float = Field(
        60, gt=0, description="The longest wait before a failed operation is tried again."
    )
    activity_flush_interval: float = Field(
        30, gt=0, description="Seconds between two reports of activity to Redis."
    )
    activity_slack_seconds: float = Field(
        10,
        ge=0,
        description="What is added to the flush interval before silence counts as idle. Redis, and "
        "Postgres after it, have a third of it each to take a report.",
    )
    activity_resend_seconds: float = Field(
        180, ge=0, description="Activity of this last time is reported again with every flush."
    )
    ttl_reminder_seconds: float = Field(
        300,
        ge=0,
        description="How long before a TTL lowers a workspace its people are told; of a short TTL, "
        "at its half.",
    )
    webhook_backoff_seconds: float = Field(
        10, gt=0, description="The first wait before a webhook that failed is tried again."
    )
    webhook_backoff_max_seconds: float = Field(
        3600, gt=0, description="The longest wait before a webhook that failed is tried again."
    )
    webhook_give_up_seconds: float = Field(
        86400, ge=0, description="How long a webhook is tried before its message is given up."
    )
    webhook_retention_seconds: float = Field(
        30 * 86400, ge=0, description="How long it is kept what webhooks were told."
    )
    gc_orphan_seconds: float = Field(
        7200, ge=0, description="How long an unused archive is kept after it was first seen."
    )
    gc_max_deletes: int = Field(1000, ge=1, description="The most objects one collection deletes.")
    ttl_standby_seconds: int = Field(
        600,
        ge=1,
        description="Idle time after which a running workspace stops, where no spec says.",
    )
    ttl_archive_seconds: int = Field(
        1800, ge=1, description="Time in STANDBY after which it is archived, where no spec says."
    )
    limits_max_running_per_user: int = Field(
        2, ge=0, description="Workspaces one user may run at once, where no spec says."
    )
    limits_max_running_global: int = Field(
        100, ge=0, description="Workspaces that may run at once, where no spec says."
    )
    drain_idle_seconds: int = Field(
        300, ge=0, description="Idle time that a lowering from git waits for."
    )
    drain_max_seconds: int = Field(
        3600, ge=0, description="The longest a lowering from git waits for an idle moment."
    )
    retention_seconds: int = Field(
        7 * 86400, ge=0, description="How long a deleted workspace's last archive is kept."
    )
    apply_wait_seconds: int = Field(
        30, ge=0, description="How long an apply waits for another one to finish."
    )
    proxy_public_url: str | None = Field(
        None,
        description="Where browsers find the hub, such as `https://codehub.example.com`. Where it "
        "is not set, it answers to this machine's own names only.",
    )
    proxy_workspace_domain: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$",
        description="The domain below which each workspace has a host of its own, such as "
        "`ws.example.com`; its pages are then kept apart from the hub's and each other's. Needs a "
        "wildcard name and certificate. On this machine it is `localhost`.",
    )
    proxy_trusted_addresses: Annotated[frozenset[str], NoDecode] = Field(
        frozenset(),
        description="Addresses and networks of proxies in front, separated by commas, whose "
        "`X-Forwarded-For` is believed.",
    )
    proxy_tls_certificate: Path | None = Field(
        None, description="A file with the certificate and its chain, to serve TLS itself."
    )
    proxy_tls_key: Path | None = Field(None, description="The file with its private key.")
    proxy_workers: int = Field(
        1, ge=1, le=64, description="Processes that serve the proxy's port, one for each core."
    )
    proxy_connections: int = Field(
        10_000, ge=1, description="Connections that one process takes at once."
    )
    proxy_connections_per_address: int = Field(
        1000, ge=1, description="Of these, from one address; proxies in front aside."
    )
    proxy_connections_per_user: int = Field(
        500, ge=1, description="WebSockets that one user may have open at once in one process."
    )
    proxy_connections_per_workspace: int = Field(
        1_000, ge=1, description="Connections that one process has open to one workspace at most."
    )
    proxy_body_bytes: int | None = Field(
        None, ge=0, description="The longest body of a request; not set, any length."
    )
    proxy_drain_seconds: float = Field(
        10, ge=0, description="How long requests may take to finish when the proxy ends."
    )
    proxy_route_interval: float = Field(
        30,
        gt=0,
        description="Seconds after which the ways to workspaces are read again, should no word of "
        "a change come.",
    )
    web_url: str | None = Field(
        None,
        pattern=r"^http://[^/@?#]+:[0-9]{1,5}/?$",
        description="Where proxies find the web application (API, dashboard), such as "
        "`http://127.0.0.1:8081`. Where it is not set, a proxy of its own has a front page only; "
        "`codehub up` and `codehub serve all` bring theirs.",
    )
    web_workers: int = Field(
        1, ge=1, le=64, description="Processes that serve the web application's port."
    )
    web_streams: int = Field(
        5000, ge=1, description="Streams of events that one process keeps open at once."
    )
    web_streams_per_user: int = Field(
        30, ge=1, description="Of these, one user's: every open dashboard has one."
    )
    web_heartbeat_seconds: float = Field(
        30,
        gt=0,
        le=600,
        description="Seconds between two signs of life on a stream of events; more often than "
        "whatever is in between ends a silent connection.",
    )
    web_look_seconds: float = Field(
        5,
        gt=0,
        description="Seconds between two looks for changes that nobody told of, while somebody "
        "follows.",
    )
    web_plan_bytes: int = Field(
        16 * MIB,
        ge=1024,
        le=64 * MIB,
        description="The most bytes that specs sent for a plan may have, packed and unpacked.",
    )
    auth_session_seconds: int = Field(
        14 * 86400, ge=60, description="How long a login lasts at most."
    )
    auth_idle_seconds: int = Field(
        3 * 86400, ge=60, description="How long a login lasts that nobody uses."
    )
    auth_link_seconds: int = Field(
        900, ge=10, le=86400, description="How long a one-time login link can be used."
    )
    auth_refresh_seconds: float = Field(
        30,
        gt=0,
        le=600,
        description="Seconds after which a proxy asks the database again about those it knows, "
        "should no word of a change come.",
    )
    auth_outage_seconds: float = Field(
        4 * 3600,
        ge=0,
        description="How long a proxy lets those in whom it knows while the database is away.",
    )
    auth_password_threads: int = Field(
        2, ge=1, le=64, description="Passwords that one process checks at once; 64 MiB for each."
    )
    auth_trusted_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]+$",
        description="The header in which a single sign-on proxy in front names the user, such as "
        "`X-Forwarded-User`. Needs `AUTH_TRUSTED_ADDRESSES`.",
    )
    auth_trusted_addresses: Annotated[frozenset[str], NoDecode] = Field(
        frozenset(),
        description="Addresses and networks, separated by commas, from which that header is "
        "believed. From everywhere else it is removed.",
    )
    metrics_listen: str | None = Field(
        None,
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$",
        description="Where a process serves `/metrics` and `/healthz` for Prometheus, without a "
        "login, such as `127.0.0.1:9464`; each process of a machine needs a port of its own. Of "
        "several workers the first listens on this port, the second on the next, and so on.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Lines for people (`console`), or one JSON object each (`json`)."
    )
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        None,
        description="The least that is logged. Where it is not set: `info`, and `warning` in "
        "`codehub up`.",
    )

    @field_validator(
        "runtime_enabled", "auth_trusted_addresses", "proxy_trusted_addresses", mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return [word.strip() for word in value.split(",") if word.strip()]

    @field_validator("log_format", "log_level", mode="before")
    @classmethod
    def _in_small_letters(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("docker_network")
    @classmethod
    def _bridge(cls, value: str | None) -> str | None:
        if value in ("host", "none", "default") or (value or "").startswith("container:"):
            raise ValueError("must be a network of its own: workspaces cannot share that one")
        return value

    @field_validator("auth_trusted_addresses", "proxy_trusted_addresses")
    @classmethod
    def _networks(cls, value: frozenset[str]) -> frozenset[str]:
        for each in value:
            try:
                ip_network(each, strict=False)
            except ValueError:
                raise ValueError("must be addresses or networks such as 10.0.0.0/8") from None
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings() -> Settings:
    """The settings in force; a wrong one is named, its value is not (it may be a secret)."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise UsageError(
            f"setting {name.upper()}: {_phrase(name, first)}",
            hint=f"correct it in the environment or in {CONFIG_FILE}",
        ) from None
    except ValueError as error:
        raise UsageError(f"the settings cannot be read: {error}") from None


def _phrase(name: str, error: ErrorDetails) -> str:
    """What is wrong with a setting, in our words and without its value."""
    kind = error["type"]
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        example = _EXAMPLE.search(Settings.model_fields[name].description or "")
        return f"must be written like {example[1]}" if example else "is not written as it must be"
    return _FORMS.get(kind) or error["msg"].replace("Input should", "must")


def setting_sources() -> dict[str, str]:
    """Where each setting that is not the default comes from; the file's unknown names too."""
    named = dict.fromkeys(TomlConfigSettingsSource(Settings).toml_data, CONFIG_FILE)
    return named | dict.fromkeys(EnvSettingsSource(Settings)(), "the environment")
