"""Redis: the buffer of activity, and the channels by which processes nudge each other."""

from codehub.adapters.redis.signals import RedisSignals

__all__ = ["RedisSignals"]
