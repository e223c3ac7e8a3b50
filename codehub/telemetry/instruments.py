"""Every metric of CodeHub, in one registry of its own.

Those of the coordinator are fed by `codehub/coordinator`, those of the proxy are `TRAFFIC`. What
only a leader knows is shown by the process that leads and by no other.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from prometheus_client import Gauge, ProcessCollector

from codehub import __version__
from codehub.model.states import ErrorReason, IntentSource, Operation, Phase
from codehub.telemetry.metric import Instruments
from codehub.telemetry.traffic import Traffic, TrafficMetrics

_LOOKS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WORK: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_WAKES: Final = (0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300, 600)
_OPERATIONS: Final = tuple(each for each in Operation if each is not Operation.NONE)

INSTRUMENTS: Final = Instruments()
REGISTRY: Final = INSTRUMENTS.registry
CATALOGUE: Final = INSTRUMENTS.catalogue

# Leading

LEADER: Final = INSTRUMENTS.gauge(
    "codehub_leader", "1 in the coordinator that leads, 0 everywhere else."
)
TERMS: Final = INSTRUMENTS.counter(
    "codehub_leader_terms_total", "Terms of leadership that this process began."
)
EPOCH: Final = INSTRUMENTS.reading(
    "codehub_leader_epoch", "The number of the leader's term; it never goes back."
)
FAILURES: Final = INSTRUMENTS.counter(
    "codehub_component_failures_total",
    "Ticks of the coordinator's components that failed; the component goes on.",
    component=(
        *("archive store", "controller", "events", "gc", "leader", "pages", "specs", "survey"),
        *("ttl", "webhooks"),
    ),
)
EVENTS_DROPPED: Final = INSTRUMENTS.counter(
    "codehub_events_dropped_total", "Events that Redis could not take, and nobody got."
)
WEBHOOKS: Final = INSTRUMENTS.counter(
    "codehub_webhook_deliveries_total",
    "Tries to tell a webhook that were taken (delivered), that failed and are tried again "
    "(retried), or that were the last one (given_up), and what ended untold because its webhook "
    "was removed from the specs (removed).",
    result=("delivered", "retried", "given_up", "removed"),
)

# Converging

RECONCILE: Final = INSTRUMENTS.histogram(
    "codehub_reconcile_seconds",
    "How long a pass took: over all workspaces, over what may need a step, or on a hint.",
    _LOOKS,
    kind=("full", "active", "quick"),
)
WORKSPACES: Final = INSTRUMENTS.reading(
    "codehub_workspaces",
    "Workspaces by phase; deleted ones as long as they can come back.",
    phase=Phase,
)
RUNNING: Final = INSTRUMENTS.reading(
    "codehub_running", "Workspaces that take a place under the limit: they run, start or stop."
)
RUNNING_LIMIT: Final = INSTRUMENTS.reading(
    "codehub_running_limit", "How many may run at once on the whole hub."
)
WAITING: Final = INSTRUMENTS.reading(
    "codehub_operations_waiting",
    "Operations that wait to begin: for a free hand, or for a place under a limit.",
    reason=("hand", "limit"),
)
IN_FLIGHT: Final = INSTRUMENTS.reading(
    "codehub_operations_in_flight",
    "Acts under way in the world; data moves have places of their own.",
    kind=("action", "data_move"),
)
OPERATIONS: Final = INSTRUMENTS.counter(
    "codehub_operations_total",
    "Operations that ended well (done), that failed and are tried again (retried), that ended in "
    "ERROR (failed), or that were given up for another one while they waited (released).",
    operation=_OPERATIONS,
    result=("done", "retried", "failed", "released"),
)
OPERATION_SECONDS: Final = INSTRUMENTS.histogram(
    "codehub_operation_seconds",
    "From the claim of an operation to its good end, tries in between included.",
    _WORK,
    operation=_OPERATIONS,
)
ERRORS: Final = INSTRUMENTS.counter(
    "codehub_workspace_errors_total", "Workspaces that came into ERROR.", reason=ErrorReason
)
EXITS: Final = INSTRUMENTS.counter(
    "codehub_workspace_exits_total", "Running workspaces that ended though nobody asked for it."
)
WAKE_SECONDS: Final = INSTRUMENTS.histogram(
    "codehub_wake_seconds",
    "From the wish for a workspace to its running, by who wished; waiting for a place included.",
    _WAKES,
    source=IntentSource,
)

# Idleness and activity

TTL_MOVES: Final = INSTRUMENTS.counter(
    "codehub_ttl_moves_total",
    "Workspaces that idleness lowered, and those that came back just in time.",
    kind=("standby", "archive", "return"),
)
TTL_SKIPPED: Final = INSTRUMENTS.counter(
    "codehub_ttl_skipped_total",
    "Looks for idle workspaces that lowered nobody: Redis gave no answer (unreachable), or "
    "activity may have been lost and idleness counts anew (blind).",
    reason=("unreachable", "blind"),
)
ACTIVITY_LAG: Final = INSTRUMENTS.reading(
    "codehub_activity_lag_seconds", "Seconds since activity was last read from Redis."
)

# Specs

REVISION: Final = INSTRUMENTS.reading(
    "codehub_revision", "The number of the revision that is in force."
)
REVISION_AGE: Final = INSTRUMENTS.reading(
    "codehub_revision_age_seconds", "Seconds since the revision in force was loaded."
)
REVISION_PROBLEMS: Final = INSTRUMENTS.reading(
    "codehub_revision_problems", "Problems of the last load; 0 when it succeeded."
)
SPECS_AGE: Final = INSTRUMENTS.reading(
    "codehub_specs_age_seconds",
    "Seconds since the watcher last read the specs; missing where none are watched.",
)

# Archives

ARCHIVE_BYTES: Final = INSTRUMENTS.counter(
    "codehub_archive_bytes_total",
    "Bytes of archives written to and restored from the archive store.",
    direction=("archive", "restore"),
)
ARCHIVE_FAILURES: Final = INSTRUMENTS.counter(
    "codehub_archive_failures_total",
    "Archives and restores that failed; most are tried again.",
    direction=("archive", "restore"),
    reason=(
        ErrorReason.UNREACHABLE,
        ErrorReason.ARCHIVE_CORRUPTED,
        ErrorReason.ACTION_FAILED,
    ),
)

# The proxy

TRAFFIC: Final = Traffic()
TrafficMetrics(TRAFFIC, INSTRUMENTS)
PROXY_RESTARTS: Final = INSTRUMENTS.counter(
    "codehub_proxy_restarts_total",
    "Parts of the proxy that ended by a mistake of ours, and were begun again.",
    component=("routes", "logins", "watch", "activity"),
)

# The web application

WEB_RESTARTS: Final = INSTRUMENTS.counter(
    "codehub_web_restarts_total",
    "Parts of the web application that ended by a mistake of ours, and were begun again.",
    component=("logins", "streams"),
)

# The process

INSTRUMENTS.note("codehub_build_info", "gauge", "1; the version is in the label.", version=())
Gauge(
    "codehub_build_info", "1; the version is in the label.", ["version"], registry=REGISTRY
).labels(__version__).set(1)

ProcessCollector(namespace="codehub", registry=REGISTRY)
for _name, _text in {
    "virtual_memory_bytes": "Virtual memory of this process.",
    "resident_memory_bytes": "Resident memory of this process.",
    "start_time_seconds": "When this process began, in seconds since 1970.",
    "open_fds": "Open file descriptors of this process.",
    "max_fds": "How many it may have.",
}.items():
    INSTRUMENTS.note(f"codehub_process_{_name}", "gauge", _text)
INSTRUMENTS.note(
    "codehub_process_cpu_seconds_total", "counter", "CPU time that this process has used."
)


def begin_term(epoch: int) -> None:
    """This process leads from now on."""
    INSTRUMENTS.forget()
    INSTRUMENTS.leads = True
    LEADER.set(1)
    TERMS.inc()
    EPOCH.set(epoch)


def end_term() -> None:
    """It leads no more; what components say while they end is not shown."""
    INSTRUMENTS.leads = False
    LEADER.set(0)


def known_series() -> frozenset[str]:
    """Every name that can be asked for."""
    return frozenset(chain.from_iterable(each.series for each in CATALOGUE))
