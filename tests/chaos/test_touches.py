"""The search for ways out finds those that somebody would take without a second thought."""

from __future__ import annotations

import pytest

from tests.chaos.test_ways_out import OURS, modules_of
from tests.touches import reached, touches

PLANTED = [
    ("jobs", 'open(path, "w").write(text)', "open"),
    ("jobs", "from os import unlink\nunlink(path)", "os.unlink"),
    ("jobs", "from os import unlink as gone\ngone(path)", "os.unlink"),
    ("jobs", "import os as system\nsystem.unlink(path)", "os.unlink"),
    ("jobs", "from os import *\nunlink(path)", "os.*"),
    ("jobs", "def late():\n    import os\n    os.unlink(path)", "os.unlink"),
    ("jobs", "from shutil import rmtree\nrmtree(path)", "shutil.rmtree"),
    ("jobs", "import subprocess\nsubprocess.run(command)", "subprocess.run"),
    ("jobs", "import ctypes\nctypes.CDLL(None).unlink(path)", "ctypes.CDLL"),
    ("jobs", "import ctypes\nctypes.CDLL(None).unlink(path)", "unlink"),
    ("jobs", "import importlib\nimportlib.import_module('os')", "importlib.import_module"),
    ("jobs", "import os\nact = getattr(os, name)", "os"),
    ("jobs", "import urllib.request\nurllib.request.urlopen(url)", "urllib.request.urlopen"),
    (
        "jobs",
        "from codehub.adapters.process import stop\nstop.end()",
        "codehub.adapters.process.stop.end",
    ),
    (
        "coordinator",
        "from codehub.store.connect import connect\nconnect(url)",
        "codehub.store.connect.connect",
    ),
    (
        "coordinator",
        "from codehub.store import connect\nconnect.connect(url)",
        "codehub.store.connect.connect",
    ),
    ("coordinator", "from codehub.store.pool import Pool\nPool(url)", "codehub.store.pool.Pool"),
    (
        "coordinator",
        "from codehub.store.schema import upgrade\nupgrade(url)",
        "codehub.store.schema.upgrade",
    ),
    (
        "coordinator",
        "from codehub.store.session import open_session\nopen_session(url)",
        "codehub.store.session.open_session",
    ),
    (
        "coordinator",
        "from psycopg import AsyncConnection\nAsyncConnection.connect(url)",
        "psycopg.AsyncConnection.connect",
    ),
    (
        "coordinator",
        "from codehub.jobs.volume import empty_volume\nempty_volume(path)",
        "codehub.jobs.volume.empty_volume",
    ),
    (
        "coordinator",
        "from codehub.service.reporting import write_pages\nwrite_pages()",
        "codehub.service.reporting.write_pages",
    ),
    ("coordinator", "path.replace(other)", "replace"),
    ("coordinator", "path.replace(target=other)", "replace"),
    ("coordinator", "path.chmod(0o600)", "chmod"),
    ("coordinator", "path.hardlink_to(other)", "hardlink_to"),
    ("coordinator", "(folder / name).unlink()", "unlink"),
    ("coordinator", "import asyncio\nasyncio.to_thread(path.unlink)", "unlink"),
    ("coordinator", "from pathlib import Path\nPath.unlink(path)", "pathlib.Path.unlink"),
    ("coordinator", "import asyncio\nasyncio.open_connection(host)", "asyncio.open_connection"),
    ("coordinator", "from asyncio import start_server\nstart_server(f)", "asyncio.start_server"),
    ("coordinator", "loop.create_server(protocol)", "create_server"),
    ("store", "import os\nos.unlink(path)", "os.unlink"),
    ("store", "import shutil\nshutil.rmtree(path)", "shutil.rmtree"),
    ("store", "from functools import partial\nimport os\npartial(os.unlink, path)", "os.unlink"),
    ("store", "import psycopg\npsycopg.connect(url)", "psycopg.connect"),
]
HARMLESS = [
    "text.replace(old, new)",
    "moment.replace(hour=0)",
    "from dataclasses import replace\nreplace(value, name=name)",
    "import os\nflags = os.O_RDONLY | os.O_CREAT",
    "import os.path\nos.path.join(folder, name)",
    "from pathlib import Path\nPath(name).read_text()",
    "if TYPE_CHECKING:\n    from subprocess import Popen",
    "import os\ndef size(found: os.stat_result) -> os.stat_result: ...",
    "from codehub.store.status import save\nsave(conn)",
]


@pytest.mark.parametrize(("package", "text", "name"), PLANTED)
def test_what_is_planted_is_found(package: str, text: str, name: str) -> None:
    assert name in touches(text, OURS[f"codehub.{package}"])


@pytest.mark.parametrize("text", HARMLESS)
def test_what_reaches_nothing_is_not_found(text: str) -> None:
    assert touches(text, OURS["codehub.coordinator"]) == set()


def test_what_comes_along_is_all_that_is_imported() -> None:
    found = reached(modules_of("codehub.coordinator"))
    assert {"codehub.service.collecting", "codehub.store.status", "codehub.core.decide"} <= found
    assert "codehub.specs.git" in found, "over what others import"
    assert "codehub.web.app" not in found
