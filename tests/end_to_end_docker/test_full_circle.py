"""A workspace's whole life on Docker and S3 under short TTLs: asleep, archived, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.moments import NEVER
from tests.end_to_end.visits import request, visit
from tests.end_to_end_docker.docker_hub import DockerHub, a_docker_hub
from tests.integration.homes import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "COORDINATOR_TTL_INTERVAL": "0.5",
    "ACTIVITY_FLUSH_INTERVAL": "0.5",
    "ACTIVITY_SLACK_SECONDS": "0.5",
}
SHORT = "ttl: {standby: 1s, archive: 1s, busyCpu: off}"
FILL = r"""
umask 022; cd "$HOME"
echo hello > index.html
for mode in 600 755 444 4755 2775 1777; do echo $mode > mode-$mode; chmod $mode mode-$mode; done
mkdir -p names empty/deeper private; echo x > private/key; chmod 500 private
for name in 'with space' -rf '*' ... ..a 'quo"te' "apo'strophe" 'back\slash' ünïcode; do
    mkdir "names/$name"; echo "$name" > "names/$name/inside"
done
touch "names/$(printf 'new\nline')" "names/$(printf 'not\377text')" "names/$(printf '%0250d' 7)"
dd if=/dev/urandom of=random bs=64k count=192 2>/dev/null
dd if=/dev/urandom of=holes bs=4k count=1 seek=2000 2>/dev/null; truncate -s 64M holes
truncate -s 1G nothing
ln random another-name; mkdir links; ln random links/third-name
ln -s ../random links/relative; ln -s /etc/passwd links/absolute; ln -s nowhere links/dangling
ln -s loop links/loop; mkfifo pipe
chown 4242:77 holes; chown 1234:2345 .; chown -h 7:7 links/dangling; chown 1:2 empty
touch -d '2001-02-03 04:05:06' random; touch -d '1999-12-31 23:59:59' names
"""
READ = 'cd "$HOME"; sha256sum random holes links/third-name; stat -c "%a %u %g %s" holes random'


@pytest.fixture(scope="module")
def hub(ground: Ground) -> Iterator[DockerHub]:
    with a_docker_hub(ground, **SETTINGS) as made:
        made.declare(circle=ground.served(NEVER))
        made.start()
        made.until_settled(circle="RUNNING")
        yield made


def test_the_full_circle_keeps_every_file(hub: DockerHub) -> None:
    hub.execute("circle", FILL)
    assert request(hub.port, "GET", "/w/circle/").body == b"hello\n"
    read, first, before = (
        hub.execute("circle", READ),
        hub.home("circle"),
        describe(hub.home("circle")),
    )
    assert before["holes"]["owner"] == (4242, 77)
    assert len(before) > 40, "all of it was written"

    hub.redeclare(circle=hub.ground.served(SHORT))
    hub.until_settled(circle="STANDBY")
    assert describe(first) == before
    rows = hub.until_settled(circle="ARCHIVED")
    assert (rows["circle"].home, hub.volumes(), hub.containers()) == (None, set(), {})
    assert hub.committed("circle") == {rows["circle"].archive}
    assert visit(hub.port, "/w/circle/").status == 502, "nobody restores by passing by"

    hub.redeclare(circle=hub.ground.served(NEVER))
    hub.tell("restore", "circle", "--start", "--wait")

    assert hub.until_settled(circle="RUNNING")["circle"].error_count == 0
    assert hub.home("circle") != first, "a generation of its own"
    assert describe(hub.home("circle")) == before
    assert hub.execute("circle", READ) == read
    assert request(hub.port, "GET", "/w/circle/").body == b"hello\n"
    history = hub.tell("events", "circle").out
    stages = ["RUNNING -> STANDBY", "STANDBY -> ARCHIVED", "ARCHIVED -> STANDBY"]
    places = [history.index(f"phase      {each}") for each in stages]
    assert places == sorted(places)
    assert "by ttl" in history
