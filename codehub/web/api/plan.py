"""`/api/v1/plan`: the plan that `codehub plan` makes, of specs that are sent along.

A plan compares with the whole hub, so it is for admins and for their tokens; one whose only scope
is `plan` is good for nothing else. Nothing is written, neither in the hub nor on a disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from codehub.errors import NotAllowed
from codehub.model.access import Scope
from codehub.model.revision import Origin
from codehub.model.workspace import Runtime
from codehub.render.plan_formats import render_plan
from codehub.service.planning import moment, plan_options, plan_specs
from codehub.specs.load import load_contents
from codehub.specs.unpack import checked, read_gzip, read_tar
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.store.hubs import read_hub_state
from codehub.store.workspaces import collector_paused
from codehub.web.api.documented import problems
from codehub.web.api.examples import PLANS, packed
from codehub.web.api.forms import Form, answer, choose, contents
from codehub.web.api.places import Places, read_body
from codehub.web.api.plan_shapes import PlanShape
from codehub.web.asking import TheHub
from codehub.web.shapes import Shape
from codehub.web.who import Caller, Known

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from codehub.model.plan import PlanOptions
    from codehub.model.revision import HubState, SpecSet
    from codehub.web.hub import Hub

AT_ONCE: Final = 2
"""Plans that one process makes at a time: each may hold its specs several times over."""
UPLOAD_SECONDS: Final = 60.0
WORK_SECONDS: Final = 60.0
PLACES: Final = Places(AT_ONCE, "makes plans")

FORMS: Final = (Form.JSON, *PLANS)
_TAR: Final = ("application/x-tar", "application/tar")
_GZIP: Final = ("application/gzip", "application/x-gzip", "application/x-gtar-compressed")
_JSON: Final = "application/json"
_USUAL_RUNTIMES: Final = frozenset({Runtime.DOCKER})

router = APIRouter(tags=["plan"])


class SpecFiles(BaseModel):
    """Spec files by their paths below the spec directory."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "files": {
                    "people.yaml": "apiVersion: codehub.dev/v1\nkind: User\n"
                    "metadata: {name: ana}\nspec: {role: member}\n",
                    "team/payments.yaml": "apiVersion: codehub.dev/v1\nkind: Workspace\n"
                    "metadata: {name: payments-api}\n"
                    "spec: {owner: ana, image: registry.example.com/dev:1.5}\n",
                }
            }
        },
    )

    files: dict[str, str]


class Asked(Shape):
    """What is asked of a plan, as the options of `codehub plan`."""

    model_config = ConfigDict(extra="forbid")

    format: Form | None = Field(
        None, description="Wins over `Accept`; JSON where neither says.", examples=["md"]
    )
    target: str | None = Field(
        None,
        max_length=200,
        description="Only this workspace, or those with a label `key=value`.",
        examples=["payments-api", "team=payments"],
    )
    as_of: str | None = Field(
        None,
        max_length=64,
        description="Also forecast TTL moves until then: `+8h` (in an address `%2B8h`), or a time.",
        examples=["+8h", "2026-12-01T08:00Z"],
    )
    directory: str = Field(
        ".",
        min_length=1,
        max_length=1024,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="What to call the directory in the plan, and before the names of files.",
        examples=["specs"],
    )
    commit: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{7,64}$",
        description="The git commit that the files are of.",
        examples=["9d1f6c2b7e0a4d35b8c1f2e3a4b5c6d7e8f90a1b"],
    )
    dirty: bool = Field(False, description="Whether they differ from that commit.", examples=[True])


@dataclass(frozen=True, slots=True)
class _Base:
    """What specs are compared with: the hub at one moment."""

    state: HubState
    now: datetime
    options: PlanOptions


async def planner(caller: Known) -> Caller:
    """A dependency: an admin, whose token, if it is one, is good for this."""
    identity = caller.identity
    if not (identity.may(Scope.PLAN) or identity.may(Scope.WRITE)):
        raise NotAllowed('this token has no scope "plan"', hint="make one that has, or log in")
    if not caller.person.is_admin:
        raise NotAllowed(
            "a plan shows the whole hub, so it is for admins and their tokens",
            hint="ask an admin for a token with the scope plan",
        )
    return caller


@router.post(
    "/plan",
    operation_id="planSpecs",
    summary="Plan specs",
    response_class=Response,
    responses={
        200: {
            "model": PlanShape,
            "description": "What applying these specs would change, and why.",
            "content": contents(PlanShape, PLANS),
        },
        **problems(408, 413, 415),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The spec directory: its files as JSON, or packed. At most "
            "`WEB_PLAN_BYTES` (16 MiB), packed and unpacked.",
            "content": {
                _JSON: {"schema": SpecFiles.model_json_schema()},
                _TAR[0]: packed(_TAR[0], "A tar archive of files, without links.", "tar -c"),
                _GZIP[0]: packed(_GZIP[0], "The same, compressed with gzip.", "tar -cz"),
            },
        }
    },
)
async def plan(
    request: Request,
    _caller: Annotated[Caller, Depends(planner)],
    hub: TheHub,
    asked: Annotated[Asked, Query()],
) -> Response:
    """The same plan as that of `codehub plan`, against this hub. Nothing is changed.

    Needs an admin: a login, or a token of theirs with the scope `plan` or `write`. Values of `env`
    are never told.
    """
    kind = _kind_of(request)
    form = choose(asked.format, request.headers.get("accept", ""), FORMS)
    with PLACES.take() as place:
        most = hub.settings.web_plan_bytes
        body = await read_body(request, most, UPLOAD_SECONDS)
        origin = Origin(asked.directory, asked.commit, asked.dirty)
        load = partial(_load, body, kind, most, origin)
        incoming = await place.work(load, WORK_SECONDS)
        # The collector stops every thread, and would walk all that is compared again and again.
        with collector_paused():
            base = await _read_base(hub, asked)
            text = await place.work(partial(_plan, base, incoming, form), WORK_SECONDS)
    return answer(text, form)


def _kind_of(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in (_JSON, *_TAR, *_GZIP):
        return kind
    raise HTTPException(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"specs come as {_JSON}, {_TAR[0]} or {_GZIP[0]}, as Content-Type says",
    )


def _load(body: bytes, kind: str, most: int, origin: Origin) -> SpecSet:
    return load_contents(_files(body, kind, most), origin)


def _files(body: bytes, kind: str, most: int) -> Mapping[str, bytes]:
    if kind in _TAR:
        return read_tar(body)
    if kind in _GZIP:
        return read_tar(read_gzip(body, most))
    try:
        sent = SpecFiles.model_validate_json(body)
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in told]
        ) from None
    return checked({path: text.encode() for path, text in sent.files.items()})


async def _read_base(hub: Hub, asked: Asked) -> _Base:
    async with hub.pool.connection() as conn, transaction(conn, snapshot=True):
        now = await read_now(conn)
        state = await read_hub_state(conn)
    enabled = hub.settings.runtime_enabled
    usual = plan_options(hub.settings, _USUAL_RUNTIMES if enabled is None else enabled)
    # In an address a plus stands for a space, and whoever forgot that meant a plus.
    text = None if asked.as_of is None else re.sub("^ ", "+", asked.as_of)
    as_of = None if text is None else moment(text, now, "asOf")
    return _Base(state, now, replace(usual, as_of=as_of, target=asked.target))


def _plan(base: _Base, incoming: SpecSet, form: Form) -> str:
    made = plan_specs(base.state, incoming, now=base.now, options=base.options)
    return render_plan(made, form.value)
