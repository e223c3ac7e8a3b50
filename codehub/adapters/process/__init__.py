"""Workspaces as plain processes on this machine: the runtime where no Docker engine answers.

Each workspace is a session of processes with a home directory, a port and a log of its own. There
is no isolation: everything runs as the hub's user. In exchange it needs nothing but Linux.

    root      the data root: its identity marker, its lock
    durable   files that are old or new, never half
    records   what was started, one small file for each workspace
    volumes   homes, their labels, and trash
    find      one look at /proc: who belongs to which workspace
    surround  what a workspace finds in its environment
    spawn     the gate: nothing runs before its record names it
    probe     ports: find a free one, ask one
    start     the steps of a start, in their order
    stop      ending processes, through pidfds
    logs      output, bounded
    measure   CPU and memory
    translate OSError into our errors
"""

from codehub.adapters.process.runtime import NOTICE, ProcessRuntime

__all__ = ["NOTICE", "ProcessRuntime"]
