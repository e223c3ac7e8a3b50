"""A store that cannot be used says why and what to do, gives no secret away, and never "absent"."""

from __future__ import annotations

import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.s3.address import parse_address
from codehub.adapters.s3.store import S3Store
from codehub.errors import ActionFailed, CodeHubError, Unreachable
from tests.conftest import open_directory, require
from tests.contract.s3_faults import FOR_EVER, FaultyProxy, is_head, reply
from tests.contract.s3_server import S3Server, s3_environment, s3_server  # noqa: F401
from tests.contract.store_contract import FAR_AHEAD, get, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from codehub.ports import ObjectStore
    from tests.contract.s3_faults import Exchange, Request

PATIENCE = 60
CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "head": lambda store: store.head("hub/one"),
    "read": lambda store: store.open_reader("hub/one"),
    "write": lambda store: put(store, "hub/one"),
    "list": lambda store: list(store.list("")),
    "delete": lambda store: store.delete("hub/one"),
    "abort_unfinished": lambda store: store.abort_unfinished("", FAR_AHEAD),
}
ANSWERS = {
    (403, "RequestTimeTooSkewed"): (Unreachable, "clock", "NTP"),
    (403, "AccessDenied"): (Unreachable, "denies us access", "policy"),
    (400, "ExpiredToken"): (Unreachable, "credentials", "AWS_ACCESS_KEY_ID"),
    (301, "PermanentRedirect"): (Unreachable, "another region", "S3_REGION"),
    (404, "NoSuchBucket"): (Unreachable, "no such bucket", "ARCHIVE_STORE_URL"),
    (404, ""): (Unreachable, "no S3 server", "S3_ENDPOINT_URL"),
    (301, ""): (Unreachable, "another region", "S3_REGION"),
    (429, "TooManyRequests"): (Unreachable, "not able to answer", None),
    (500, "InternalError"): (Unreachable, "an error of its own, such as a full disk", None),
    (500, ""): (Unreachable, "an error of its own, such as a full disk", None),
    (502, ""): (Unreachable, "not able to answer", None),
    (400, "InvalidRequest"): (ActionFailed, "refused: InvalidRequest", None),
    (507, "InsufficientStorage"): (ActionFailed, "no space", "quota"),
}


@pytest.fixture
def server(s3_server: S3Server, s3_environment: Mapping[str, str]) -> S3Server:  # noqa: F811
    return s3_server


@pytest.fixture
def proxy(server: S3Server) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url) as proxy:
        yield proxy


def open_once(server: S3Server, bucket: str, **options: object) -> S3Store:
    return S3Store(parse_address(server.address(bucket, "", max_attempts=1, **options)))


def refusal(store: S3Store, call: Callable[[ObjectStore], object]) -> CodeHubError:
    try:
        with pytest.raises(CodeHubError) as caught:
            call(store)
    finally:
        store.close()
    return caught.value


each_call = pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))


@each_call
def test_a_missing_bucket_is_unreachable_and_never_empty(
    server: S3Server, call: Callable[[ObjectStore], object]
) -> None:
    error = refusal(open_once(server, "no-such-bucket"), call)
    assert isinstance(error, Unreachable)
    assert "no such bucket" in error.message
    assert "create it" in (error.hint or "")


@each_call
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_unreachable_and_not_repeated(
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[ObjectStore], object],
    name: str,
) -> None:
    monkeypatch.setenv(name, "canary-canary-canary")
    error = refusal(open_once(server, server.make_bucket()), call)
    assert isinstance(error, Unreachable)
    assert "does not accept our credentials" in error.message
    assert "AWS_SECRET_ACCESS_KEY" in (error.hint or "")
    for secret in ("canary", server.key, server.secret):
        assert secret not in f"{error} {error.hint}"


@pytest.mark.parametrize("profile", [None, "nobody"])
def test_missing_credentials_are_unreachable(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    bucket = server.make_bucket()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    if profile is not None:
        monkeypatch.setenv("AWS_PROFILE", profile)
    error = refusal(open_once(server, bucket), CALLS["head"])
    assert isinstance(error, Unreachable)
    assert "no credentials" in error.message


@each_call
def test_a_server_that_is_not_there_is_unreachable(
    server: S3Server, call: Callable[[ObjectStore], object]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    error = refusal(open_once(server, "bucket", endpoint_url=url), call)
    assert isinstance(error, Unreachable)
    assert "cannot be reached" in error.message
    assert "S3_ENDPOINT_URL" in (error.hint or "")


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer[0]}-{answer[1] or 'page'}")
def test_every_answer_is_told_in_words(
    server: S3Server, proxy: FaultyProxy, answer: tuple[int, str]
) -> None:
    """By whichever call it comes, also where the answer itself had no room for the reason."""
    kind, words, hint = ANSWERS[answer]
    proxy.spoil(reply(*answer), times=FOR_EVER)
    bucket = server.make_bucket()
    for name in ("read", "list", "head"):
        error = refusal(open_once(server, bucket, endpoint_url=proxy.url), CALLS[name])
        assert isinstance(error, kind), name
        assert words in error.message, name
        assert (hint or "") in (error.hint or ""), name
        assert "canary" not in f"{error} {error.hint}"


@pytest.mark.parametrize("name", ["head", "read", "list", "write", "delete"])
def test_a_web_server_of_another_kind_holds_no_objects(
    server: S3Server, proxy: FaultyProxy, name: str
) -> None:
    """It has a page for every address."""
    proxy.spoil(reply(200, ""), times=FOR_EVER)
    error = refusal(open_once(server, "bucket", endpoint_url=proxy.url), CALLS[name])
    assert isinstance(error, Unreachable)


def test_an_object_that_cannot_be_asked_for_is_not_absent(
    server: S3Server, proxy: FaultyProxy
) -> None:
    """A HEAD says 404 for whatever is wrong; only a listing that works makes it an answer."""
    bucket = server.make_bucket()
    store = open_once(server, bucket, endpoint_url=proxy.url)
    put(store, "hub/one")
    proxy.spoil(reply(404, ""), times=2)
    assert "no S3 server" in refusal(store, CALLS["head"]).message
    proxy.spoil(reply(404, ""), times=2)
    assert "no S3 server" in refusal(store, CALLS["delete"]).message
    assert get(store, "hub/one") == b"data"
    store.close()


@pytest.mark.parametrize("name", ["head", "delete", "write"])
def test_an_object_that_is_listed_is_not_absent(
    server: S3Server, proxy: FaultyProxy, name: str
) -> None:
    """A server that lost a part of itself may say both."""
    store = open_once(server, server.make_bucket(), endpoint_url=proxy.url)
    put(store, "hub/one")
    proxy.spoil(reply(404, ""), is_head, FOR_EVER)
    error = refusal(store, CALLS[name])
    assert isinstance(error, Unreachable)
    assert "contradicts itself" in error.message
    assert get(store, "hub/one") == b"data"
    store.close()


@pytest.mark.parametrize("name", ["list", "head", "abort_unfinished"])
def test_a_page_that_can_be_read_is_no_empty_listing(
    server: S3Server, proxy: FaultyProxy, name: str
) -> None:
    """XML of any kind is taken for a listing of nothing by whoever does not look."""
    store = open_once(server, server.make_bucket(), endpoint_url=proxy.url)
    proxy.spoil(reply_page("<html><body>welcome</body></html>"), is_listing, FOR_EVER)
    error = refusal(store, CALLS[name])
    assert isinstance(error, Unreachable)
    assert "not what an S3 server says" in error.message


def is_listing(request: Request) -> bool:
    return request.method == "GET" and bool(request.query)


def reply_page(text: str) -> Callable[[Exchange, Request], None]:
    def act(exchange: Exchange, request: Request) -> None:
        body = text.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        exchange.receive_body(request)
        exchange.client.sendall(head.encode() + body)

    return act


@pytest.fixture(scope="module")
def certificate() -> Iterator[Path]:
    """A certificate for 127.0.0.1 that no authority has signed, with its key beside it."""
    require("openssl", shutil.which("openssl") is not None, "it is not on this machine")
    with open_directory() as directory:
        request = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
        files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
        name = ["-addext", "subjectAltName=IP:127.0.0.1"]
        command = ["openssl", *request.split(), *name, *files]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        yield directory


def test_a_certificate_of_ones_own_needs_its_authority(
    certificate: Path,
    s3_environment: Mapping[str, str],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    cert = certificate / "cert.pem"
    tls = (f"--cert={cert}", f"--key={certificate / 'key.pem'}")
    with S3Server(tmp_path / "tls", *tls) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        (server.root / "bucket").mkdir()
        error = refusal(open_once(server, "bucket"), CALLS["write"])
        assert isinstance(error, Unreachable)
        assert "certificate" in error.message
        assert "S3_CA_BUNDLE" in (error.hint or "")
        store = open_once(server, "bucket", ca_bundle=cert)
        put(store, "hub/one", bytes(9_000_000))
        assert get(store, "hub/one", 1_000_000) == bytes(9_000_000)
        store.close()
