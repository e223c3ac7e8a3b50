"""Sending again what arrived damaged. Of requests that got no answer boto3 itself takes care."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import ClientError

from codehub.adapters.s3.faults import DAMAGED, code_of

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


def resend_damaged(send: Callable[[], Answer], attempts: int) -> Answer:
    """What `send` gives. The damage is the error to tell, whatever the last try ran into."""
    damage: ClientError | None = None
    for _ in range(attempts):
        try:
            return send()
        except ClientError as error:
            if code_of(error) not in DAMAGED:
                raise damage or error from error
            damage = damage or error
    assert damage is not None
    raise damage
