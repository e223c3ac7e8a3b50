"""People who work in workspaces while things break: they remember what they were told is saved."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from docker.errors import DockerException
from requests.exceptions import RequestException

from codehub.errors import CodeHubError

if TYPE_CHECKING:
    import random
    from pathlib import Path
    from typing import Protocol

    from tests.end_to_end_docker.docker_hub import DockerHub

    class Homes(Protocol):
        """Who knows where homes are."""

        def home(self, name: str) -> Path: ...


WRITE = "cd $HOME && head -c {size} /dev/urandom > {file} && sync && sha256sum {file}"
LARGEST = 300_000
PAUSE = 0.2
AWAY = (AssertionError, DockerException, RequestException, psycopg.Error, CodeHubError, OSError)
"""What a question to a hub under fire may end in. Whether the file is there, nobody knows then."""


@dataclass
class Person:
    """The files of one workspace, by hash. What is in doubt may be there, whole or in part."""

    name: str
    kept: dict[str, str] = field(default_factory=dict)
    doubted: int = 0

    def write(self, hub: DockerHub, size: int) -> None:
        file = f"file-{len(self.kept) + self.doubted}"
        try:
            said = hub.execute(self.name, WRITE.format(size=size, file=file))
        except AWAY:
            self.doubted += 1
            return
        self.kept[file] = said.split()[0]

    def lost(self, homes: Homes) -> list[str]:
        """The files that are not in the home as they were written."""
        home = homes.home(self.name)
        return [file for file, told in sorted(self.kept.items()) if _hash(home / file) != told]


class Crowd:
    """Everybody at once, in a thread of their own, wherever a workspace runs at the moment."""

    def __init__(self, hub: DockerHub, names: list[str], chance: random.Random) -> None:
        self.people = {name: Person(name) for name in names}
        self._hub = hub
        self._chance = chance
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def written(self) -> int:
        return sum(len(each.kept) for each in self.people.values())

    @property
    def doubted(self) -> int:
        return sum(each.doubted for each in self.people.values())

    def _work(self) -> None:
        while not self._ends.wait(PAUSE):
            for name in self._running():
                self.people[name].write(self._hub, self._chance.randint(1, LARGEST))

    def _running(self) -> list[str]:
        try:
            rows = self._hub.rows().values()
        except AWAY:
            return []
        return [row.name for row in rows if (row.phase, row.operation) == ("RUNNING", "NONE")]


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "gone"
