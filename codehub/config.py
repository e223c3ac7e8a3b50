"""Settings: the only reader of the environment and of `codehub.toml`.

A name here is an environment variable in capitals (`DATABASE_URL`); `codehub.toml` in the
current directory holds the same names in small letters. The environment wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

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

CONFIG_FILE: Final = "codehub.toml"
MIB: Final = 1024 * 1024


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
        description="Bytes in one part of an upload to S3, which takes at most 10,000 parts.",
    )
    s3_upload_threads: int = Field(
        4, ge=1, le=16, description="Parts of one upload to S3 under way at once, and in memory."
    )
    secrets_dir: Path | None = Field(
        None, description="The directory with one file for each secret that `secretEnv` may name."
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
        10, ge=0, description="What is added to the flush interval before silence counts as idle."
    )
    activity_resend_seconds: float = Field(
        180, ge=0, description="Activity of this last time is reported again with every flush."
    )
    ttl_reminder_seconds: float = Field(
        300, ge=0, description="How long before a TTL lowers a workspace its people are told."
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

    @field_validator("runtime_enabled", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return [word.strip() for word in value.split(",") if word.strip()]

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
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"setting {name.upper()}: {first['msg'].lower()}",
            hint=f"correct it in the environment or in {CONFIG_FILE}",
        ) from None
    except ValueError as error:
        raise UsageError(f"the settings cannot be read: {error}") from None


def setting_sources() -> dict[str, str]:
    """Where each setting that is not the default comes from; the file's unknown names too."""
    named = dict.fromkeys(TomlConfigSettingsSource(Settings).toml_data, CONFIG_FILE)
    return named | dict.fromkeys(EnvSettingsSource(Settings)(), "the environment")
