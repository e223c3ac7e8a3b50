"""Every way from the coordinator, the store and storage jobs to the outside stands here.

A new one must not come to be unnoticed: it gets a crash point, or a reason why it needs none. Calls
of ports and of the database are struck at one by one (`test_crash_points.py`), calls of the store
that a job makes in `tests/integration/test_job_faults.py`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from tests.touches import reached, source_of, touches

OURS = {
    "codehub.coordinator": (
        *("codehub.cancelling", "codehub.config", "codehub.coordinator", "codehub.core"),
        *("codehub.errors", "codehub.model", "codehub.ports", "codehub.store"),
        *("codehub.telemetry.instruments", "codehub.telemetry.logs"),
    ),
    "codehub.jobs": (
        *("codehub.cancelling", "codehub.core", "codehub.errors", "codehub.jobs"),
        *("codehub.model", "codehub.ports"),
    ),
    "codehub.store": (
        *("codehub.cancelling", "codehub.core", "codehub.errors", "codehub.model"),
        "codehub.store",
    ),
}
"""What of the hub each package uses freely; of all else every use counts."""
KNOWN = {
    "codehub.coordinator": {
        # Who this process is, for the audit of elections. Rules are made of settings.
        "coordinator": {
            *("os.getpid", "socket.gethostname"),
            *("codehub.service.rules.limits_of", "codehub.service.rules.rules_of"),
        },
        # The connections: in tests of crashes those are scripted, and what is asked for in them.
        "leader": {"codehub.store.pool.Pool", "codehub.store.session.open_session"},
        "listen": {"codehub.store.session.open_session"},
        # Shared with commands: the store through its port, answers through the connection.
        "gc": {
            *("codehub.service.collecting.call_store", "codehub.service.collecting.take_inventory"),
            "codehub.service.collecting.write_answer",
        },
        "marker": {"codehub.service.collecting.call_store"},
        "webhooks": {
            *("codehub.service.notifying.answer_request", "codehub.service.secrets.read_secret"),
        },
        # Threads that nobody waits for at the end; what runs in them is a call of the port.
        "shelf": {"codehub.jobs.committed.find_committed", "codehub.service.threads.Threads"},
        # Secrets are read; what came through the port is cut short.
        "hear": {
            *("codehub.adapters.words.last_words", "codehub.service.secrets.read_secrets"),
        },
        "steps": {"codehub.service.secrets.read_secrets"},
        # Pages are written anew after every change; specs are read and loaded all or nothing.
        "pages": {
            *("codehub.service.reporting.read_report", "codehub.service.reporting.render_pages"),
            "codehub.service.reporting.write_pages",
        },
        "watch": {
            *("codehub.service.loading.Known", "codehub.service.loading.LoadRules"),
            *("codehub.service.loading.load_once", "codehub.service.planning.plan_options"),
            "codehub.specs.watch.changes",
        },
    },
    "codehub.jobs": {
        # A process of its own: its arguments, its environment, and what it tells its leader.
        "__main__": {
            *("codehub.adapters.stores.open_store", "os.environ.get"),
            *("sys.argv", "sys.exit", "sys.stdout.flush", "sys.stdout.write"),
        },
        # A connection to the engine: `test_docker_copy.py` cuts it.
        "engine": {
            *("codehub.adapters.docker.translate.explain_answer", "http.client.HTTPConnection"),
            *("http.client.HTTPException", "http.client.HTTPSConnection"),
            *("socket.socket", "ssl.create_default_context"),
        },
        # Who ends with whom: `test_job_crash.py` kills the leader, the job and tar.
        "leash": {
            *("ctypes.CDLL", "os.execv", "os.getppid", "signal.signal", "sys.argv", "sys.exit"),
        },
        "mover": {"asyncio.create_subprocess_exec", "asyncio.subprocess.PIPE", "os.killpg"},
        "parent": {
            *("os.getpgrp", "os.getpid", "os.isatty", "os.killpg", "os.read", "os.setpgid"),
        },
        # tar and the pipe to it: `test_job_crash.py` kills it, `test_job_refuses.py` fills its
        # disk.
        "tarchild": {
            *("fcntl", "fcntl.fcntl", "os.environ.get", "os.geteuid", "os.getpid", "os.read"),
            *("os.write", "shutil.which", "subprocess.Popen"),
        },
        # How many cores there are.
        "upload": {"os.sched_getaffinity"},
        # Looking and syncing change nothing. Emptying is for a volume that counts for nothing yet,
        # and one half emptied counts for as little: `test_a_restore_is_whole_or_leaves_nothing`.
        "volume": {
            *("ctypes.CDLL", "ctypes.get_errno", "os.close", "os.lstat", "os.open", "os.scandir"),
            *("os.statvfs", "os.strerror", "os.sync"),
            *("chmod", "os.chmod", "os.rename", "os.rmdir", "os.unlink"),
        },
    },
    "codehub.store": {
        # Where connections come from; whoever asks for one stands above.
        "connect": {"psycopg.AsyncConnection.connect"},
        "pool": {
            *("open", "psycopg_pool.AsyncConnectionPool"),
            "psycopg_pool.AsyncConnectionPool.check_connection",
        },
        # The options of a socket that is open already.
        "session": {"codehub.store.connect.connect", "os.dup", "socket.socket"},
        # Tables are made before anybody leads, each migration in a transaction.
        "schema": {
            *("alembic.command.upgrade", "alembic.config.Config"),
            *("psycopg.connect", "sqlalchemy.create_engine"),
        },
    },
}
ALONG = {
    # Each page is written beside its place and moved there: half of one is never seen.
    "codehub.service.reporting": {
        *("chmod", "mkdir", "os.fdopen", "replace", "tempfile.mkstemp", "unlink"),
    },
    # Reading.
    "codehub.service.secrets": {"os.close", "os.fstat", "os.open", "os.read"},
    "codehub.specs.git": {"os.environ.items", "subprocess.TimeoutExpired", "subprocess.run"},
    "codehub.specs.read": {"os.close", "os.fstat", "os.lstat", "os.open", "os.read"},
    "codehub.specs.scan": {"os.scandir", "os.stat"},
    "codehub.specs.watch": {"open", "watchfiles.watch"},
}
"""The same of what comes with the coordinator: all that it imports, and what those import."""


def modules_of(package: str) -> list[str]:
    inside = pkgutil.iter_modules(import_module(package).__path__)
    return [package, *(f"{package}.{each.name}" for each in inside)]


@pytest.mark.parametrize("package", OURS)
def test_every_way_out_of_a_package_is_known(package: str) -> None:
    found = {each: touches(source_of(each), OURS[package]) for each in modules_of(package)}
    known = {f"{package}.{name}": each for name, each in KNOWN[package].items()}
    assert {name: each for name, each in found.items() if each} == known


def test_every_way_out_of_what_comes_with_the_coordinator_is_known() -> None:
    along = {
        each
        for each in reached(modules_of("codehub.coordinator"))
        if not each.startswith(tuple(OURS))
    }
    found = {each: touches(source_of(each)) for each in along}
    assert {name: each for name, each in found.items() if each} == ALONG
    named = {each for package in KNOWN.values() for uses in package.values() for each in uses}
    assert along >= {each.rpartition(".")[0] for each in named if ".service." in each}
