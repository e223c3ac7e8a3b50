"""Settings: the only reader of the environment and of `codehub.toml`.

A name here is an environment variable in capitals (`DATABASE_URL`); `codehub.toml` in the
current directory holds the same names in small letters. The environment wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from codehub.errors import UsageError
from codehub.model.workspace import Runtime

CONFIG_FILE: Final = "codehub.toml"


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
