"""The settings as the rules they set: one reading for the controller, explanations and waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.model.decision import Drain, Rules
from codehub.service.limits import LimitDefaults

if TYPE_CHECKING:
    from codehub.config import Settings


def rules_of(settings: Settings) -> Rules:
    """The limits of deciding."""
    return Rules(
        retries=settings.operation_retries,
        stall=_seconds(settings.operation_stall_seconds),
        provisioning=_seconds(settings.operation_provisioning_seconds),
        starting=_seconds(settings.operation_starting_seconds),
        stop_grace=_seconds(settings.operation_stop_grace_seconds),
        stopping=_seconds(settings.operation_stopping_seconds),
        settled=_seconds(settings.operation_settled_seconds),
        backoff_first=_seconds(settings.operation_backoff_seconds),
        backoff_limit=_seconds(settings.operation_backoff_max_seconds),
        drain=drain_of(settings),
    )


def drain_of(settings: Settings) -> Drain:
    """How long a lowering that comes from git waits for people."""
    return Drain(_seconds(settings.drain_idle_seconds), _seconds(settings.drain_max_seconds))


def limits_of(settings: Settings) -> LimitDefaults:
    """How many may run, where no spec says."""
    return LimitDefaults(settings.limits_max_running_per_user, settings.limits_max_running_global)


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)
