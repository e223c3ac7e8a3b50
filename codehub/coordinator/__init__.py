"""The coordinator: one process leads and converges everything; any number stand by.

leader      election on a session of its own, the epoch, stepping down
lead        what a leader holds: its fence and its connections
controller  observe → judge → decide → persist → act, for all workspaces at once
ttl         activity from Redis to Postgres, then the two TTL checks
gc          archives that nothing refers to
listen      NOTIFY from Postgres to Redis, and hints to the controller
pages       status report and error pages as files
watch       the spec directory into revisions
hints       who is to be looked at sooner
pace        ticks that outlive their failures
"""
