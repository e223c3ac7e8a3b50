"""Examples for the document of what is long: plans and reports in words, and packed specs.

They are what the renderings make, with `…` where a part is left out; a test holds them against
them. A packed body has no text that could stand here, so its example says how to make one.
"""

from __future__ import annotations

from typing import Any, Final

from codehub.web.api.forms import Form

_PLAN_TEXT: Final = """\
Plan for specs, against hub 0192d3b0 at revision 41.

  ~ workspace payments-api                       specs/payments.yaml:12
      ~ image   "registry.example.com/dev:1.4" -> "registry.example.com/dev:1.5"   (from the next
                start)

Plan: 0 to create, 1 to update, 0 to delete; 0 deferred, 0 held, 0 drifted.
"""

_PLAN_MARKDOWN: Final = """\
### CodeHub plan: 0 to create, 1 to update, 0 to delete; 0 deferred, 0 held, 0 drifted

Specs `specs`, against hub 0192d3b0 at revision 41.

| | what | where | details |
|---|---|---|---|
| `~` | workspace **`payments-api`** | `specs/payments.yaml:12` | `image` \
`"registry.example.com/dev:1.4"` → `"registry.example.com/dev:1.5"` *(from the next start)* |
"""

_PLAN_HTML: Final = """\
<!doctype html>
<html lang="en">
…
<h1>CodeHub plan</h1>
<p>specs, against hub 0192d3b0 at revision 41</p>
…
<h3>workspace <code>payments-api</code></h3>
<code class="where">specs/payments.yaml:12</code>
…
</html>
"""

REPORT: Final[dict[str, Any]] = {
    "formatVersion": 1,
    "generatedAt": "2026-11-01T12:00:00+00:00",
    "hub": {"name": "hub", "id": "0f9c2a4e-1111-2222-3333-444455556666"},
    "phases": {
        "RUNNING": 2,
        "STANDBY": 2,
        "ARCHIVED": 2,
        "PENDING": 0,
        "ERROR": 1,
        "DELETING": 0,
    },
    "workspaces": [
        {
            "name": "payments-api",
            "owner": "alice",
            "phase": "RUNNING",
            "since": "2026-11-01T07:00:00+00:00",
            "operation": "NONE",
            "progress": None,
            "why": "as declared",
            "nextMove": {
                "at": "2026-11-01T14:56:00+00:00",
                "to": "STANDBY",
                "reason": "ttl interactive.standby=3h",
            },
            "lastAccessAt": "2026-11-01T11:56:00+00:00",
            "lastAccessSource": "traffic",
            "source": "specs/payments-api.yaml:1",
            "hoursRun": 125.0167,
            "hoursSaved": 42.9667,
            "phaseChanges": 2,
        }
    ],
    "errors": [
        {
            "name": "ml-gpu",
            "owner": "bob",
            "reason": "DataLost",
            "message": "the volume ws-4-home-g3 is not there any more",
            "advice": "look for the missing volume first; then choose 'codehub recover ml-gpu "
            "--from-archive' or 'codehub recover ml-gpu --accept-empty'",
            "since": "2026-11-01T11:40:00+00:00",
        }
    ],
}

_REPORT_MARKDOWN: Final = """\
# CodeHub: 2 running, 1 in error of 7 workspaces

Revision 7 of `specs`, commit `5c110904fbe7`, applied 2h ago by alice.
…
## The last 7 days

- **754 h** run, **350 h** saved by TTL (32% of what would have run), lowered 2 times
…
## Next, if nobody comes

- `payments-api` STANDBY in 2h56m (ttl interactive.standby=3h)
- `storefront` ARCHIVED in 23h (ttl interactive.archive=24h)
…
"""

_REPORT_HTML: Final = """\
<!doctype html>
<html lang="en">
…
<title>CodeHub: 2 running, 1 in error of 7 workspaces</title>
…
<div class="tile running"><dt>Running</dt><dd>2</dd></div>
<div class="tile standby"><dt>Standby</dt><dd>2</dd></div>
…
</html>
"""

PLANS: Final = {
    Form.MARKDOWN: _PLAN_MARKDOWN,
    Form.HTML: _PLAN_HTML,
    Form.TEXT: _PLAN_TEXT,
}
REPORTS: Final = {
    Form.MARKDOWN: _REPORT_MARKDOWN,
    Form.HTML: _REPORT_HTML,
}


def packed(kind: str, words: str, tar: str) -> dict[str, Any]:
    """For the document: specs as this command packs them, to be sent as a body of this type."""
    command = (
        f'{tar} -C specs . | curl --data-binary @- -H "Authorization: Bearer $TOKEN" '
        f'-H "Content-Type: {kind}" "$HUB/api/v1/plan?directory=specs&format=text"'
    )
    return {
        "schema": {"type": "string", "format": "binary", "description": words},
        "examples": {
            "directory": {
                "summary": "The files of a directory",
                "description": f"Packed and sent in one go:\n\n```sh\n{command}\n```",
            }
        },
    }
