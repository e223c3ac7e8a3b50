"""What people write: the four kinds of document a spec directory may hold.

pydantic models, frozen, with camelCase fields and no field beside those known here. They check
one document by itself; what documents say of each other is checked in `core/validate.py`, and
`core/resolve.py` turns them into the values that the rest of CodeHub works with. The
descriptions and examples feed `codehub schema`, and through it every editor.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel

from codehub.model.people import Role
from codehub.model.scalars import (
    Argument,
    Bytes,
    Cpus,
    EnvKey,
    EnvValue,
    Image,
    LabelKey,
    LabelValue,
    Limit,
    Name,
    PasswordHash,
    Percent,
    Pids,
    Port,
    SecretName,
    Text,
    TtlSeconds,
    Url,
)
from codehub.model.webhook import WebhookEvent
from codehub.model.workspace import (
    ActivityPolicy,
    PathPrefix,
    Runtime,
    StartOn,
    UpdatePolicy,
)

API_VERSION: Final = "codehub.dev/v1"


def _without_null(schema: dict[str, Any]) -> None:
    """A field that is not given is left out, never null: the schema says so too."""
    for field in schema.get("properties", {}).values():
        if "default" in field and field["default"] is None:
            del field["default"]
        forms = [form for form in field.get("anyOf", []) if form != {"type": "null"}]
        if len(forms) == 1:
            del field["anyOf"]
            field.update(forms[0])
        elif forms:
            field["anyOf"] = forms


class Part(BaseModel):
    """A part of a document: nothing is converted silently, nothing unknown is passed over."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        json_schema_extra=_without_null,
    )


# Strictness would ask for the enum's own values; a spec has their words.
_word: Final = Field(strict=False)
RuntimeWord = Annotated[Runtime, _word]
ActivityWord = Annotated[ActivityPolicy, _word]
PathPrefixWord = Annotated[PathPrefix, _word]
StartOnWord = Annotated[StartOn, _word]
UpdateWord = Annotated[UpdatePolicy, _word]
RoleWord = Annotated[Role, _word]
EventWord = Annotated[WebhookEvent, _word]
StateWord = Literal["RUNNING", "STANDBY", "ARCHIVED"]
WakeWord = Literal["STANDBY", "ARCHIVED"]


class Metadata(Part):
    name: Name = Field(
        description="The name, unique among its kind: a DNS label of at most 40 characters.",
        examples=["interactive"],
    )


class WorkspaceMetadata(Metadata):
    name: Name = Field(
        description="The name, unique in the hub: a DNS label of at most 40 characters. "
        "The workspace is reached under /w/{name}/.",
        examples=["payments-api"],
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default={},
        description="Free words to find and select workspaces by.",
        examples=[{"team": "payments"}],
    )


class ResourcesSpec(Part):
    cpus: Cpus | None = Field(
        default=None, description="At most this many processors.", examples=[2, 0.5]
    )
    memory: Bytes | None = Field(
        default=None,
        description="At most this much memory: 512Mi, 4Gi, 500M or bytes.",
        examples=["4Gi", "512Mi"],
    )
    pids: Pids | None = Field(
        default=None, description="At most this many processes and threads.", examples=[512]
    )


class TtlSpec(Part):
    standby: TtlSeconds | None = Field(
        default=None,
        description="Idle time after which a running workspace is stopped: 90s, 10m, 3h, 7d, "
        "seconds, or never. Not given: the hub's setting.",
        examples=["3h", "never"],
    )
    archive: TtlSeconds | None = Field(
        default=None,
        description="Time in STANDBY after which the home is archived: 90s, 10m, 3h, 7d, "
        "seconds, or never. Not given: the hub's setting.",
        examples=["24h", "never"],
    )
    activity: ActivityWord = Field(
        default=ActivityPolicy.AUTO,
        description="What counts as use: auto, traffic (requests and data) or connections "
        "(any open one).",
        examples=["auto"],
    )
    busy_cpu: Percent = Field(
        default=25,
        description="A workspace using more of one core than this is at work, though nobody "
        "looks at it; off disregards the processor.",
        examples=["25%", "off"],
        json_schema_extra={"default": "25%"},
    )


class WebhookSpec(Part):
    name: Name | None = Field(
        default=None,
        description="What to call it in lists and commands. Not given: its host.",
        examples=["chat"],
    )
    url: Url = Field(
        description="Where to post events: http or https.",
        examples=["https://chat.example.org/hooks/codehub"],
    )
    events: list[EventWord] = Field(
        default=[],
        description="Only events of these kinds; none given: all.",
        examples=[["workspace.error", "revision.failed"]],
    )
    secret: SecretName | None = Field(
        default=None,
        description="The name of the secret that signs the posts, below the hub's secrets "
        "directory. Not given: they are not signed.",
        examples=["chat-webhook"],
    )


def _ttl_form(value: Any) -> str:
    return "inline" if isinstance(value, dict | TtlSpec) else "name"


TtlReference = Annotated[
    Annotated[Name, Tag("name")] | Annotated[TtlSpec, Tag("inline")], Discriminator(_ttl_form)
]
"""A TTLPolicy by its name, or written out in place."""


class WorkspaceSpec(Part):
    owner: Name = Field(description="The User it belongs to.", examples=["alice"])
    description: Text = Field(
        default="", description="One line for lists.", examples=["Payments API sandbox"]
    )
    memo: Text = Field(default="", description="Free text.", examples=["Ask Bob before resizing."])
    image: Image | None = Field(
        default=None,
        description="The container image; required by docker and kubernetes.",
        examples=["codercom/code-server:4.107.1"],
    )
    runtime: RuntimeWord | None = Field(
        default=None,
        description="Where it runs, of those the hub enables. Not given: the hub's default, "
        "else docker where there is an image and process where there is none.",
        examples=["docker"],
    )
    command: Annotated[list[Argument], Field(min_length=1)] | None = Field(
        default=None,
        description="The command and its arguments, each as text; required by process.",
        examples=[["code-server", "--auth", "none"]],
    )
    port: Port = Field(
        default=8080,
        description="The port it listens on inside the container; a process gets a free one in "
        "PORT.",
        examples=[8080],
    )
    path_prefix: PathPrefixWord = Field(
        default=PathPrefix.STRIP,
        description="What the application sees of /w/{name}: strip hides it, keep passes it on.",
        examples=["strip"],
    )
    inject: bool = Field(
        default=True,
        description="Put the activity script into the application's pages.",
        examples=[True],
    )
    env: dict[EnvKey, EnvValue] = Field(
        default={},
        description="Environment variables; values are text, so quote numbers. The hub sets HOME, "
        "PORT and all that begin with CODEHUB_ itself.",
        examples=[{"LANG": "C.UTF-8"}],
    )
    secret_env: dict[EnvKey, SecretName] = Field(
        default={},
        description="Environment variables read from secrets: each value is a name below the "
        "hub's secrets directory, never a path.",
        examples=[{"TOKEN": "payments-token"}],
    )
    resources: ResourcesSpec = Field(
        default=ResourcesSpec(),
        description="Limits on processors, memory and processes.",
        examples=[{"cpus": 2, "memory": "4Gi", "pids": 512}],
        json_schema_extra={"default": {}},
    )
    desired_state: StateWord = Field(
        default="RUNNING",
        description="The ceiling: the hub may hold the workspace lower, never higher.",
        examples=["RUNNING"],
    )
    start_on: StartOnWord = Field(
        default=StartOn.APPLY,
        description="apply starts it when it is declared; visit leaves it STANDBY until somebody "
        "comes.",
        examples=["visit"],
    )
    wake_from: WakeWord = Field(
        default="STANDBY",
        description="What a visit may wake: STANDBY only, or ARCHIVED too.",
        examples=["ARCHIVED"],
    )
    ttl: TtlReference | None = Field(
        default=None,
        description="A TTLPolicy by name, or inline. Not given: the hub's defaultTTL.",
        examples=["interactive", {"standby": "3h"}],
    )
    update: UpdateWord = Field(
        default=UpdatePolicy.NEXT_START,
        description="When a changed image, command, env, port or resources take effect: at the "
        "next start, or immediate with a restart.",
        examples=["nextStart"],
    )
    pinned: bool = Field(
        default=False, description="TTL and people cannot lower it.", examples=[True]
    )
    suspend: bool = Field(
        default=False, description="The controller, TTL and visits leave it alone.", examples=[True]
    )
    protect: bool = Field(
        default=False, description="Removal from the specs cannot delete it.", examples=[True]
    )
    renamed_from: Name | None = Field(
        default=None,
        description="Its former name: it keeps its identity and its home.",
        examples=["old-name"],
    )


class UserSpec(Part):
    display_name: Text = Field(
        default="", description="The name shown to people.", examples=["Alice"]
    )
    role: RoleWord = Field(
        default=Role.MEMBER,
        description="A member sees what is theirs, an admin sees and may do all.",
        examples=["member"],
    )
    password_hash: PasswordHash | None = Field(
        default=None,
        description="The argon2id hash that 'codehub user hash-password' prints. Not given: no "
        "login by password.",
        examples=["$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2g"],
    )
    max_running: Limit | None = Field(
        default=None,
        description="At most this many running workspaces. Not given: the hub's limit.",
        examples=[2],
    )


class HubSpec(Part):
    max_running_per_user: Limit | None = Field(
        default=None,
        description="At most this many running workspaces of one user.",
        examples=[2],
    )
    max_running_global: Limit | None = Field(
        default=None, description="At most this many running workspaces in all.", examples=[100]
    )
    default_ttl: Name | None = Field(
        default=None,
        alias="defaultTTL",
        description="The TTLPolicy of workspaces that name none.",
        examples=["interactive"],
    )
    default_runtime: RuntimeWord | None = Field(
        default=None, description="The runtime of workspaces that name none.", examples=["docker"]
    )
    prune: bool = Field(
        default=True,
        description="Removal from the specs deletes a workspace (its last archive is kept for "
        "the retention); false keeps it as an orphan.",
        examples=[True],
    )
    webhooks: list[WebhookSpec] = Field(
        default=[],
        description="Whom to tell of what happens.",
        examples=[
            [{"url": "https://chat.example.org/hooks/codehub", "events": ["workspace.error"]}]
        ],
    )


_VERSION: Final = "The version of this format."
_KIND: Final = "What the document declares."


class WorkspaceDocument(Part):
    """One workspace."""

    api_version: Literal["codehub.dev/v1"] = Field(description=_VERSION, examples=[API_VERSION])
    kind: Literal["Workspace"] = Field(description=_KIND, examples=["Workspace"])
    metadata: WorkspaceMetadata = Field(
        description="Its name and labels.", examples=[{"name": "payments-api"}]
    )
    spec: WorkspaceSpec = Field(
        description="What it is and where it may be.", examples=[{"owner": "alice"}]
    )


class TTLPolicyDocument(Part):
    """A named rule for when idleness stops and archives workspaces."""

    api_version: Literal["codehub.dev/v1"] = Field(description=_VERSION, examples=[API_VERSION])
    kind: Literal["TTLPolicy"] = Field(description=_KIND, examples=["TTLPolicy"])
    metadata: Metadata = Field(description="Its name.", examples=[{"name": "interactive"}])
    spec: TtlSpec = Field(description="Its times.", examples=[{"standby": "3h"}])


class UserDocument(Part):
    """Somebody who may log in and own workspaces."""

    api_version: Literal["codehub.dev/v1"] = Field(description=_VERSION, examples=[API_VERSION])
    kind: Literal["User"] = Field(description=_KIND, examples=["User"])
    metadata: Metadata = Field(description="The login name.", examples=[{"name": "alice"}])
    spec: UserSpec = Field(
        default=UserSpec(),
        description="Who they are and what they may.",
        examples=[{"displayName": "Alice"}],
        json_schema_extra={"default": {}},
    )


class HubDocument(Part):
    """The hub's defaults, limits and webhooks; at most one."""

    api_version: Literal["codehub.dev/v1"] = Field(description=_VERSION, examples=[API_VERSION])
    kind: Literal["Hub"] = Field(description=_KIND, examples=["Hub"])
    metadata: Metadata = Field(description="Its name.", examples=[{"name": "hub"}])
    spec: HubSpec = Field(
        default=HubSpec(),
        description="Defaults and limits for all.",
        examples=[{"maxRunningPerUser": 2}],
        json_schema_extra={"default": {}},
    )


Document = WorkspaceDocument | TTLPolicyDocument | UserDocument | HubDocument
AnyDocument = Annotated[Document, Field(discriminator="kind")]
"""Any of the four, told apart by `kind`: the root of the JSON Schema."""

DOCUMENTS: Final[dict[str, type[Document]]] = {
    "Workspace": WorkspaceDocument,
    "TTLPolicy": TTLPolicyDocument,
    "User": UserDocument,
    "Hub": HubDocument,
}
"""The model of each kind."""
