"""Asking a hub over HTTP: what each way to fail says, and what is never done."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from codehub.cli import server as client
from codehub.cli.server import Server, find_server, post
from codehub.config import Settings
from codehub.errors import (
    CodeHubError,
    NotAllowed,
    NotFound,
    NotLetIn,
    SpecsInvalid,
    Unreachable,
    UsageError,
)
from codehub.model.problem import Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "chub_canary"
PROBLEM = "application/problem+json"
HUB = "https://codehub.example.com"


@dataclass
class Scripted:
    """A server that gives these answers in turn, the last one for ever."""

    answers: list[tuple[int, dict[str, str], bytes]]
    asked: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def hub(self) -> Server:
        return Server(f"http://127.0.0.1:{self.port}", TOKEN)

    def ask(self, **more: Any) -> dict[str, Any]:
        return post(self.hub, "/plan", {"target": "a b"}, b"body", "application/gzip", **more)


def problem(status: int, detail: str = "no", **facts: Any) -> tuple[int, dict[str, str], bytes]:
    told = {"title": "T", "status": status, "detail": detail, **facts}
    return status, {"Content-Type": PROBLEM}, json.dumps(told).encode()


@contextmanager
def serving(
    *answers: tuple[int, dict[str, str], bytes], tls: ssl.SSLContext | None = None
) -> Iterator[Scripted]:
    script = Scripted(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.asked.append({"path": self.path, "headers": dict(self.headers), "body": body})
            left = len(script.answers) > 1
            status, headers, content = script.answers.pop(0) if left else script.answers[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Tests look at what was asked."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        script.port = server.server_port
        try:
            yield script
        finally:
            server.shutdown()
            thread.join(timeout=60)


GOOD = (200, {"Content-Type": "application/json"}, b'{"formatVersion": 1}')


def test_what_is_sent() -> None:
    with serving(GOOD) as script:
        assert script.ask() == {"formatVersion": 1}
    (asked,) = script.asked
    assert asked["path"] == "/api/v1/plan?target=a+b"
    assert asked["headers"]["Authorization"] == f"Bearer {TOKEN}"
    assert asked["headers"]["Content-Type"] == "application/gzip"
    assert asked["body"] == b"body"


def test_a_busy_hub_is_asked_again_after_as_long_as_it_says() -> None:
    busy = problem(503, "too much at once")
    busy[1]["Retry-After"] = "3"
    patient = problem(429)
    patient[1]["Retry-After"] = "9999"
    pauses: list[float] = []
    with serving(busy, patient, GOOD) as script:
        assert script.ask(pause=pauses.append) == {"formatVersion": 1}
    assert pauses == [3.0, client.LONGEST_PAUSE]


def test_a_hub_that_stays_busy_is_left_alone() -> None:
    busy = problem(503, "too much at once", hint="come back")
    busy[1]["Retry-After"] = "1"
    pauses: list[float] = []
    with serving(busy) as script, pytest.raises(Unreachable, match="too busy: too much at once"):
        script.ask(pause=pauses.append)
    assert len(script.asked) == client.TRIES == len(pauses) + 1


def test_a_hub_that_names_no_time_is_not_asked_again() -> None:
    pauses: list[float] = []
    with serving(problem(503, "it takes too long")) as script, pytest.raises(Unreachable):
        script.ask(pause=pauses.append)
    assert (len(script.asked), pauses) == (1, [])


def test_a_redirect_is_not_followed() -> None:
    with serving(GOOD) as elsewhere:
        to = f"http://127.0.0.1:{elsewhere.port}/api/v1/plan"
        for status in (301, 302, 303, 307, 308):
            with serving((status, {"Location": to}, b"")) as script:
                with pytest.raises(CodeHubError, match="sends us elsewhere") as caught:
                    script.ask()
                assert to in caught.value.message
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (problem(401), NotLetIn, "does not know this token"),
        (problem(403, "for admins"), NotAllowed, "refuses: for admins"),
        (problem(413, "too large"), CodeHubError, "answers with 413: too large"),
        (problem(422, "what target?"), UsageError, "what target?"),
        (problem(500, "a mistake"), CodeHubError, "answers with 500: a mistake"),
        (problem(404, "there is no such thing"), NotFound, "not this version's hub"),
        ((502, {}, b"<html>"), NotFound, "not this version's hub"),
        ((200, {}, b"<html>"), NotFound, "not this version's hub"),
        ((200, {}, b"[]"), NotFound, "not this version's hub"),
        ((200, {}, b"[" * 100_000), NotFound, "not this version's hub"),
        ((403, {}, b"[1]"), NotFound, "not this version's hub"),
    ],
)
def test_what_a_no_means(
    answer: tuple[int, dict[str, str], bytes], kind: type[CodeHubError], words: str
) -> None:
    with serving(answer) as script, pytest.raises(kind) as caught:
        script.ask()
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert TOKEN not in f"{caught.value.message}{caught.value.hint}"


def test_problems_of_specs_come_back_as_such() -> None:
    place = {"file": "a.yaml", "line": 3, "column": 7, "field": "spec.ttl"}
    nowhere = {"file": "specs", "line": None, "column": None, "field": None}
    told = [{**place, "message": "no", "excerpt": "x"}, {**nowhere, "message": "empty"}, "nonsense"]
    answer = problem(422, problems=told, hint="correct it")
    with serving(answer) as script, pytest.raises(SpecsInvalid) as caught:
        script.ask()
    assert caught.value.problems == (
        Problem(Place("a.yaml", 3, 7), "spec.ttl", "no", "x"),
        Problem(Place("specs"), "", "empty"),
    )
    assert caught.value.hint == "correct it"


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        gone = Server(f"http://127.0.0.1:{taken.getsockname()[1]}", TOKEN)
        with pytest.raises(Unreachable, match=r"no hub answers at .* \(Connection refused\)"):
            post(gone, "/plan", {}, b"", "application/gzip")


def test_somebody_who_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        hub = Server(f"http://127.0.0.1:{listener.getsockname()[1]}", TOKEN)
        with pytest.raises(Unreachable, match=r"hung up|no hub answers"):
            post(hub, "/plan", {}, b"", "application/gzip")
        thread.join(timeout=60)


def test_an_answer_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 100)
    long: tuple[int, dict[str, str], bytes] = (200, {}, b"{" + b" " * 200 + b"}")
    with serving(long) as script, pytest.raises(CodeHubError, match="too long to be a plan"):
        script.ask()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed but itself, with its key beside it."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=hub -days 2"
    extension = "subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "crt.pem")]
    subprocess.run(
        ["openssl", *words.split(), *files, "-addext", extension],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return tmp_path / "crt.pem"


def test_a_certificate_must_be_one_that_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with serving(GOOD, tls=tls) as script:
        hub = Server(script.hub.url.replace("http:", "https:"), TOKEN)
        with pytest.raises(Unreachable, match="not one that this machine trusts") as caught:
            post(hub, "/plan", {}, b"", "application/gzip")
        assert "SSL_CERT_FILE" in (caught.value.hint or "")
        assert script.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert post(hub, "/plan", {}, b"", "application/gzip") == {"formatVersion": 1}


def settings(**named: Any) -> Settings:
    return Settings(**named)


def test_where_the_server_is_named() -> None:
    here = settings(codehub_server=f"{HUB}/", codehub_token=TOKEN)
    assert find_server(None, None, None, here) == Server(HUB, TOKEN)
    assert find_server("http://localhost:8080", None, None, here) == Server(
        "http://localhost:8080", TOKEN
    )
    assert find_server(None, "postgresql://h/d", None, here) is None
    assert find_server(None, None, Path("data"), here) is None
    assert find_server(None, None, None, settings(codehub_token=TOKEN)) is None


def test_two_hubs_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="two hubs"):
        find_server(HUB, "postgresql://h/d", None, settings(codehub_token=TOKEN))


def test_without_a_token_nobody_is_asked() -> None:
    with pytest.raises(UsageError, match="there is no token") as caught:
        find_server(HUB, None, None, settings())
    assert "codehub token create" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "url",
    [
        "codehub.example.com",
        "ftp://codehub.example.com",
        "https://",
        "https://ana:secret@codehub.example.com",
        "https://codehub.example.com/hub",
        "https://codehub.example.com?x=1",
        "postgresql://codehub@db/codehub",
    ],
)
def test_addresses_that_cannot_be_asked(url: str) -> None:
    with pytest.raises(UsageError, match="not one that can be asked") as caught:
        find_server(url, None, None, settings(codehub_token=TOKEN))
    assert "secret" not in caught.value.message


def test_the_token_is_not_in_a_repr_and_exposure_is_known() -> None:
    assert TOKEN not in repr(Server(HUB, TOKEN))
    assert not Server(HUB, TOKEN).exposed
    assert not Server("http://localhost:8080", TOKEN).exposed
    assert Server("http://codehub.internal", TOKEN).exposed
