"""The small words of a spec: names, durations, sizes, environment keys.

Each is a checked type for the models in `spec.py`, with the JSON Schema that editors see. A
message here says what a value must be and never repeats it: whether a value may be shown is
decided in one place (`core/phrase.py`), because some of them are secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from codehub.model.workspace import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

NAME_LENGTH: Final = 40
"""Leaves room for a prefix and a suffix within the 63 characters of a DNS label."""
NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
ENV_KEY_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
SECRET_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
LABEL_KEY_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$"
IMAGE_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
DURATION_PATTERN: Final = r"^[1-9][0-9]{0,8}[smhd]$"
MEMORY_PATTERN: Final = r"^[0-9]{1,15}(\.[0-9]{1,3})?([kMGT]|[KMGT]i)?$"
PERCENT_PATTERN: Final = r"^[1-9][0-9]{0,3}%$"

LABEL_LENGTH: Final = 63
IMAGE_LENGTH: Final = 512
URL_LENGTH: Final = 2_000
TEXT_LENGTH: Final = 10_000
ENV_LENGTH: Final = 32_000
"""Linux takes no single argument or variable above 128 KiB; a character is at most 4 bytes."""
MOST_CPUS: Final = 1024
MOST_PIDS: Final = 4_194_304
"""The kernel's own upper limit."""
MOST_RUNNING: Final = 1_000_000
LONGEST_SECONDS: Final = 3650 * 86_400
"""Ten years: beyond it is `never`, or a slip of the finger."""
SMALLEST_MEMORY: Final = 6 * 2**20
"""Docker starts nothing with less."""
LARGEST_MEMORY: Final = 64 * 2**40

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DECIMAL: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BYTES: Final = {**_DECIMAL, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_DURATION = "must be a duration (90s, 10m, 3h, 7d) or whole seconds"
_MEMORY = "must be a size (512Mi, 4Gi, 500M) or whole bytes"
_NAME = re.compile(NAME_PATTERN)
_ENV_KEY = re.compile(ENV_KEY_PATTERN)
_SECRET = re.compile(SECRET_PATTERN)
_LABEL_KEY = re.compile(LABEL_KEY_PATTERN)
_IMAGE = re.compile(IMAGE_PATTERN)
_SIZE = re.compile(MEMORY_PATTERN)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Unlike(ValueError):
    """The value is not of the form that the message names; what it is may be said after it."""


def parse_duration(value: object) -> int:
    """Seconds of `90s`, `10m`, `3h`, `7d` or of whole seconds; at least one."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Unlike(_DURATION)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}[smhd]?", value):
        unit = value[-1] if value[-1] in _SECONDS else "s"
        value = int(value.rstrip("smhd")) * _SECONDS[unit]
    if isinstance(value, str):
        raise Unlike(_DURATION)
    if value < 1:
        raise ValueError("must be longer than zero")
    if value > LONGEST_SECONDS:
        raise ValueError("must be at most ten years (3650d)")
    return value


def parse_ttl(value: object) -> int:
    """As `parse_duration`, and NEVER for `never`."""
    if value == "never":
        return NEVER
    try:
        return parse_duration(value)
    except Unlike as error:
        raise Unlike(f"{error}, or never") from None
    except ValueError as error:
        raise ValueError(f"{error}; 'never' switches it off") from None


def parse_memory(value: object) -> int:
    """Bytes of `512Mi`, `4Gi`, `500M` or of whole bytes."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Unlike(_MEMORY)
    text = str(value) if isinstance(value, str) or abs(value) < 10**15 else ""
    if not _SIZE.fullmatch(text):
        raise Unlike(_MEMORY)
    number = text.rstrip("kKMGTi")
    size = round(float(number) * _BYTES[text[len(number) :]])
    if not SMALLEST_MEMORY <= size <= LARGEST_MEMORY:
        raise Unlike("must be from 6Mi to 64Ti")
    return size


def parse_busy_cpu(value: object) -> int:
    """Percent of one core of `25%`, 0 for `off`."""
    if value == "off":
        return 0
    if isinstance(value, str) and re.fullmatch(PERCENT_PATTERN, value):
        return int(value[:-1])
    raise Unlike("must be a percentage of one core such as 25%, or off")


def _whole(least: int, most: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Unlike(f"must be a whole number from {least} to {most}")
        return value

    return check


def _check_cpus(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < float(str(value)) <= MOST_CPUS:
        raise Unlike(f"must be a number above 0, at most {MOST_CPUS}")
    return float(str(value))


def _check_name(value: str) -> str:
    if len(value) > NAME_LENGTH:
        raise ValueError(f"must be at most {NAME_LENGTH} characters, not {len(value)}")
    if not _NAME.fullmatch(value):
        raise Unlike("must be a DNS label (small letters, digits, and '-' between them)")
    return value


def _check_env_key(value: str) -> str:
    if not _ENV_KEY.fullmatch(value) or len(value) > LABEL_LENGTH * 2:
        raise ValueError("a variable's name is made of letters, digits and '_'")
    if value in ("HOME", "PORT") or value.startswith("CODEHUB_"):
        raise ValueError("is set by the hub and cannot be declared")
    return value


def _check_env_value(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain a NUL character")
    if len(value) > ENV_LENGTH:
        raise ValueError(f"must be at most {ENV_LENGTH:,} characters")
    return value


def _check_secret(value: str) -> str:
    if len(value) > LABEL_LENGTH or not _SECRET.fullmatch(value):
        raise ValueError(
            "must be the name of a secret (letters, digits, '-', '_' and '.'), never a path"
        )
    return value


def _check_label_key(value: str) -> str:
    if len(value) > LABEL_LENGTH or not _LABEL_KEY.fullmatch(value):
        raise ValueError("a label's key is made of letters, digits, '-', '_', '.' and '/'")
    return value


def _check_label(value: str) -> str:
    if len(value) > LABEL_LENGTH or _CONTROL.search(value) or "\n" in value:
        raise ValueError(f"must be one line of at most {LABEL_LENGTH} characters")
    return value


def _check_text(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("must not contain control characters")
    if len(value) > TEXT_LENGTH:
        raise ValueError(f"must be at most {TEXT_LENGTH:,} characters")
    return value


def _check_image(value: str) -> str:
    if len(value) > IMAGE_LENGTH or not _IMAGE.fullmatch(value):
        raise Unlike("must be an image such as codercom/code-server:4.107.1")
    return value


def _check_argument(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _check_hash(value: str) -> str:
    if not value.startswith("$argon2id$") or len(value) > IMAGE_LENGTH or _CONTROL.search(value):
        raise ValueError("must be an argon2id hash; make one with 'codehub user hash-password'")
    return value


def _check_url(value: str) -> str:
    match = re.fullmatch(r"https?://([^/\s?#]+)([/?#]\S*)?", value)
    if not match or _CONTROL.search(value):
        raise ValueError("must be an address that starts with http:// or https://")
    if "@" in match[1]:
        raise ValueError("must not carry a user name or password; sign with 'secret' instead")
    if len(value) > URL_LENGTH:
        raise ValueError(f"must be at most {URL_LENGTH:,} characters")
    try:
        found = urlsplit(value).hostname and urlsplit(value).port != 0
    except ValueError:
        found = False
    if not found:
        raise ValueError("must name a host, and where it names a port, one from 1 to 65535")
    return value


Name = Annotated[
    str,
    AfterValidator(_check_name),
    WithJsonSchema({"type": "string", "pattern": NAME_PATTERN, "maxLength": NAME_LENGTH}),
]
"""The name of a workspace, user, policy or hub: a DNS label."""

TtlSeconds = Annotated[
    int,
    BeforeValidator(parse_ttl),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": DURATION_PATTERN},
                {"type": "integer", "minimum": 1, "maximum": LONGEST_SECONDS},
                {"const": "never"},
            ]
        }
    ),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_memory),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": MEMORY_PATTERN},
                {"type": "integer", "minimum": SMALLEST_MEMORY, "maximum": LARGEST_MEMORY},
            ]
        }
    ),
]
Percent = Annotated[
    int,
    BeforeValidator(parse_busy_cpu),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": PERCENT_PATTERN}, {"const": "off"}]}),
]
EnvKey = Annotated[str, AfterValidator(_check_env_key)]
EnvValue = Annotated[str, AfterValidator(_check_env_value)]
SecretName = Annotated[
    str,
    AfterValidator(_check_secret),
    WithJsonSchema({"type": "string", "pattern": SECRET_PATTERN, "maxLength": LABEL_LENGTH}),
]
LabelKey = Annotated[str, AfterValidator(_check_label_key)]
LabelValue = Annotated[
    str,
    AfterValidator(_check_label),
    WithJsonSchema({"type": "string", "maxLength": LABEL_LENGTH}),
]
Text = Annotated[
    str,
    AfterValidator(_check_text),
    WithJsonSchema({"type": "string", "maxLength": TEXT_LENGTH}),
]
Image = Annotated[
    str,
    AfterValidator(_check_image),
    WithJsonSchema({"type": "string", "pattern": IMAGE_PATTERN, "maxLength": IMAGE_LENGTH}),
]
Argument = Annotated[str, AfterValidator(_check_argument)]
PasswordHash = Annotated[
    str,
    AfterValidator(_check_hash),
    WithJsonSchema({"type": "string", "pattern": r"^\$argon2id\$"}),
]
Url = Annotated[
    str,
    AfterValidator(_check_url),
    WithJsonSchema({"type": "string", "pattern": "^https?://"}),
]
Port = Annotated[
    int,
    BeforeValidator(_whole(1, 65_535)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65_535}),
]
Limit = Annotated[
    int,
    BeforeValidator(_whole(1, MOST_RUNNING)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_RUNNING}),
]
Pids = Annotated[
    int,
    BeforeValidator(_whole(1, MOST_PIDS)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_PIDS}),
]
Cpus = Annotated[
    float,
    BeforeValidator(_check_cpus),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MOST_CPUS}),
]
