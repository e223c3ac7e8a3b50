"""A bad network or a bad server: whatever breaks where, a store neither lies nor leaves a mess."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.s3 import reader
from codehub.adapters.s3.address import MIB, parse_address
from codehub.adapters.s3.store import S3Store
from codehub.errors import ActionFailed, NameConflict, Unreachable
from tests.contract.s3_faults import (
    FOR_EVER,
    FaultyProxy,
    cut_answer,
    cut_request,
    flip_request,
    is_complete,
    is_head,
    is_next_page,
    is_part,
    is_put,
    is_read,
    lose_answer,
    reply,
    stall,
    stall_answer,
)
from tests.contract.s3_server import s3_environment, s3_server  # noqa: F401
from tests.contract.store_contract import FAR_AHEAD, get, keys, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codehub.ports import ObjectReader, ObjectWriter
    from tests.contract.s3_faults import Exchange, Request
    from tests.contract.s3_server import S3Server

LARGE = os.urandom(MIB) * 12
SMALL = os.urandom(300_000)
UNFIT = reply(503, "SlowDown")


@pytest.fixture
def server(s3_server: S3Server, s3_environment: Mapping[str, str]) -> S3Server:  # noqa: F811
    return s3_server


@pytest.fixture
def proxy(server: S3Server) -> Iterator[FaultyProxy]:
    """What lies between the store and its server; afterwards no thread of an upload goes on."""
    before = set(threading.enumerate())
    with FaultyProxy(server.url) as proxy:
        yield proxy
    left = set(threading.enumerate()) - before
    assert [thread for thread in left if thread.name.startswith("codehub-s3")] == []


@pytest.fixture
def address(server: S3Server, proxy: FaultyProxy) -> str:
    return server.address(server.make_bucket(), endpoint_url=proxy.url, part_size=5 * MIB)


@pytest.fixture
def store(address: str) -> Iterator[S3Store]:
    """A store that tries everything twice."""
    store = S3Store(parse_address(address))
    yield store
    store.close()


@pytest.fixture
def single(address: str) -> Iterator[S3Store]:
    """A store that tries everything once."""
    store = S3Store(parse_address(address.replace("max_attempts=2", "max_attempts=1")))
    yield store
    store.close()


@pytest.fixture
def hasty(address: str) -> Iterator[S3Store]:
    """A store that tries everything once and waits for a second."""
    url = address.replace("max_attempts=2", "max_attempts=1")
    store = S3Store(parse_address(f"{url}&read_timeout=1"))
    yield store
    store.close()


def put_in_vain(store: S3Store, data: bytes, kind: type[Exception], match: str) -> None:
    """As jobs do: an error ends in an abort."""
    writer = store.open_writer("hub/one")
    with pytest.raises(kind, match=match):
        _write(writer, data)
    writer.abort()


def _write(writer: ObjectWriter, data: bytes) -> None:
    for begin in range(0, len(data), MIB):
        writer.write(data[begin : begin + MIB])
    writer.commit()


def read_all(reader: ObjectReader) -> None:
    while reader.read(MIB):
        pass


def require_nothing(proxy: FaultyProxy, store: S3Store) -> None:
    """No object, no upload that is left, and a second try succeeds."""
    proxy.heal()
    assert keys(store) == []
    assert store.abort_unfinished("", FAR_AHEAD) == 0
    put(store, "hub/one", b"second try")
    assert get(store, "hub/one") == b"second try"


@pytest.mark.parametrize("act", [cut_request, lose_answer, UNFIT], ids=["cut", "lost", "503"])
@pytest.mark.parametrize(
    ("when", "data"),
    [(is_part, LARGE), (is_complete, LARGE), (is_put, SMALL), (is_head, SMALL)],
    ids=["part", "complete", "put", "head"],
)
def test_a_request_that_fails_once_is_made_again(
    proxy: FaultyProxy,
    store: S3Store,
    act: Callable[[Exchange, Request], None],
    when: Callable[[Request], bool],
    data: bytes,
) -> None:
    """Also when the server had done it: the second answer to that is no contradiction."""
    proxy.spoil(act, when)
    put(store, "hub/one", data)
    assert len(proxy.seen(when)) > 1
    assert get(store, "hub/one", MIB) == data
    assert store.abort_unfinished("", FAR_AHEAD) == 0


@pytest.mark.parametrize("act", [cut_request, UNFIT], ids=["cut", "503"])
@pytest.mark.parametrize(
    ("when", "data"),
    [(is_part, LARGE), (is_complete, LARGE), (is_put, SMALL), (is_head, SMALL)],
    ids=["part", "complete", "put", "head"],
)
def test_a_request_that_keeps_failing_is_unreachable_and_leaves_nothing(
    proxy: FaultyProxy,
    store: S3Store,
    act: Callable[[Exchange, Request], None],
    when: Callable[[Request], bool],
    data: bytes,
) -> None:
    proxy.spoil(act, when, FOR_EVER)
    put_in_vain(store, data, Unreachable, "archive store")
    require_nothing(proxy, store)


@pytest.mark.parametrize(
    ("when", "data"), [(is_complete, LARGE), (is_put, SMALL)], ids=["complete", "put"]
)
def test_a_lost_answer_to_a_commit_is_found_out(
    proxy: FaultyProxy, single: S3Store, when: Callable[[Request], bool], data: bytes
) -> None:
    proxy.spoil(lose_answer, when)
    put(single, "hub/one", data)
    assert len(proxy.seen(when)) == 1
    assert get(single, "hub/one", MIB) == data


@pytest.mark.parametrize(
    ("when", "data"), [(is_complete, LARGE), (is_put, SMALL)], ids=["complete", "put"]
)
def test_a_commit_that_cannot_be_found_out_is_unknown(
    proxy: FaultyProxy, single: S3Store, when: Callable[[Request], bool], data: bytes
) -> None:
    """It was done, but nobody can know: Unreachable, which is neither "done" nor "not done"."""

    def lose_all(exchange: Exchange, request: Request) -> None:
        proxy.spoil(reply(503, ""), times=FOR_EVER)
        lose_answer(exchange, request)

    proxy.spoil(lose_all, when)
    put_in_vain(single, data, Unreachable, "broke off")
    proxy.heal()
    assert get(single, "hub/one", MIB) == data


@pytest.mark.parametrize(("when", "data"), [(is_part, LARGE), (is_put, SMALL)], ids=["part", "put"])
def test_a_silent_server_is_unreachable(
    proxy: FaultyProxy, hasty: S3Store, when: Callable[[Request], bool], data: bytes
) -> None:
    proxy.spoil(stall, when, FOR_EVER)
    put_in_vain(hasty, data, Unreachable, "in time")
    assert len(proxy.seen(when)) <= 4


def test_what_arrives_damaged_is_sent_again(proxy: FaultyProxy, store: S3Store) -> None:
    proxy.spoil(flip_request, is_put)
    put(store, "hub/one", SMALL)
    assert len(proxy.seen(is_put)) == 2
    assert get(store, "hub/one") == SMALL


@pytest.mark.parametrize(("when", "data"), [(is_part, LARGE), (is_put, SMALL)], ids=["part", "put"])
def test_what_keeps_arriving_damaged_is_refused(
    proxy: FaultyProxy, store: S3Store, when: Callable[[Request], bool], data: bytes
) -> None:
    """Told as what it is, although this server then gives up the whole upload."""
    proxy.spoil(flip_request, when, FOR_EVER)
    put_in_vain(store, data, ActionFailed, "arrived damaged")
    require_nothing(proxy, store)


def test_nothing_can_follow_a_part_that_was_lost(proxy: FaultyProxy, store: S3Store) -> None:
    """Whoever goes on after an error does not get an object with a hole."""
    writer = store.open_writer("hub/one")
    proxy.spoil(UNFIT, is_part, FOR_EVER)
    with pytest.raises(Unreachable):
        writer.write(LARGE * 4)
    proxy.heal()
    with pytest.raises(ActionFailed, match="has ended"):
        writer.write(LARGE)
    with pytest.raises(ActionFailed, match="has ended"):
        writer.commit()
    require_nothing(proxy, store)


def test_a_server_that_guards_names_itself_is_believed(
    proxy: FaultyProxy,
    store: S3Store,
    server: S3Server,
    address: str,
) -> None:
    """Somebody was quicker, between our look and our write."""
    other = parse_address(address).bucket

    def be_quicker(exchange: Exchange, request: Request) -> None:
        server.client.put_object(Bucket=other, Key="hub/one", Body=b"theirs")
        reply(412, "PreconditionFailed")(exchange, request)

    proxy.spoil(be_quicker, is_put)
    put_in_vain(store, b"ours", NameConflict, "hub/one")
    assert get(store, "hub/one") == b"theirs"
    assert proxy.seen(is_put)[0].headers["if-none-match"] == "*"


@pytest.mark.parametrize(
    ("when", "data"), [(is_complete, LARGE), (is_put, SMALL)], ids=["complete", "put"]
)
def test_a_server_without_conditional_writes_is_asked_without(
    proxy: FaultyProxy, store: S3Store, when: Callable[[Request], bool], data: bytes
) -> None:
    proxy.spoil(reply(501, "NotImplemented"), lambda request: "if-none-match" in request.headers)
    put(store, "hub/one", data)
    assert ["if-none-match" in each.headers for each in proxy.seen(when)] == [True, False]
    put(store, "hub/two", data)
    assert "if-none-match" not in proxy.seen(when)[-1].headers
    assert get(store, "hub/one", MIB) == get(store, "hub/two", MIB) == data


@pytest.mark.parametrize("act", [cut_answer, stall_answer], ids=["cut", "stalled"])
def test_a_stream_that_breaks_is_taken_up_where_it_stopped(
    proxy: FaultyProxy, store: S3Store, act: Callable[[Exchange, Request], None], address: str
) -> None:
    put(store, "hub/one", LARGE)
    proxy.spoil(act, is_read)
    url = address.replace("max_attempts=2", "max_attempts=9")
    patient = S3Store(parse_address(f"{url}&read_timeout=4"))
    assert get(patient, "hub/one", MIB) == LARGE
    patient.close()
    first, second, *_ = proxy.seen(is_read)
    assert "range" not in first.headers
    assert second.headers["range"].startswith("bytes=")
    assert second.headers["if-match"]


@pytest.mark.parametrize(
    ("act", "match"), [(cut_answer, "broke off"), (stall_answer, "in time")], ids=["cut", "stalled"]
)
def test_a_stream_that_keeps_breaking_is_never_passed_off_as_the_whole(
    proxy: FaultyProxy,
    store: S3Store,
    hasty: S3Store,
    act: Callable[[Exchange, Request], None],
    match: str,
) -> None:
    put(store, "hub/one", SMALL)
    proxy.spoil(act, is_read, FOR_EVER)
    with pytest.raises(Unreachable, match=match):
        get(hasty if act is stall_answer else store, "hub/one")


def test_pauses_grow_to_a_limit_and_differ_from_reader_to_reader(
    proxy: FaultyProxy, store: S3Store, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that one fault has hit together must not come back together."""
    put(store, "hub/one", LARGE)
    proxy.spoil(cut_answer, is_read, FOR_EVER)
    patient = S3Store(parse_address(address.replace("max_attempts=2", "max_attempts=8")))

    def pauses() -> list[float]:
        kept: list[float] = []
        monkeypatch.setattr(reader, "time", SimpleNamespace(sleep=kept.append))
        with pytest.raises(Unreachable, match="broke off"):
            get(patient, "hub/one", MIB)
        return kept

    first, second = pauses(), pauses()
    patient.close()
    for pause, other, most in zip(first, second, (1, 2, 4, 8, 16, 20, 20), strict=True):
        assert 0 <= pause <= most
        assert pause != other


def test_a_stream_does_not_go_on_with_another_object(
    proxy: FaultyProxy,
    store: S3Store,
    server: S3Server,
    address: str,
) -> None:
    """Of the same length, on a server that ignores the condition we ask with."""
    put(store, "hub/one", SMALL)
    proxy.spoil(cut_answer, is_read)
    broken = store.open_reader("hub/one")
    assert broken is not None
    with broken:
        other = SMALL[::-1]
        bucket = parse_address(address).bucket
        server.client.put_object(Bucket=bucket, Key="hub/one", Body=other)
        with pytest.raises(ActionFailed, match="something else"):
            read_all(broken)


def test_a_stream_of_an_object_that_was_deleted_ends_with_an_error(
    proxy: FaultyProxy, store: S3Store
) -> None:
    put(store, "hub/one", SMALL)
    proxy.spoil(cut_answer, is_read)
    broken = store.open_reader("hub/one")
    assert broken is not None
    store.delete("hub/one")
    with broken, pytest.raises(ActionFailed, match="no longer"):
        read_all(broken)


def test_a_listing_ends_with_an_error_rather_than_early(
    proxy: FaultyProxy,
    store: S3Store,
    server: S3Server,
    address: str,
) -> None:
    folder = server.root / parse_address(address).bucket / "hub"
    folder.mkdir()
    for number in range(1001):
        (folder / f"{number:04}").touch()
    proxy.spoil(UNFIT, is_next_page, FOR_EVER)
    with pytest.raises(Unreachable, match="listing"):
        keys(store)
    proxy.heal()
    assert len(keys(store)) == 1001
