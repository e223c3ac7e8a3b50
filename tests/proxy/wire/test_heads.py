"""Redirects as the browser must see them."""

from __future__ import annotations

import pytest

from codehub.model.runtime import Upstream
from codehub.proxy.heads import relocate
from codehub.proxy.seam import Forward
from tests.proxy.wire.wire_world import Seen

HOST = b"hub.test"


def forward(base: bytes, target: bytes = b"/") -> Forward:
    return Forward(Upstream("127.0.0.1", 3000), target, base, [], Seen())


BELOW_A_PATH = {
    b"/login": b"/w/api/login",
    b"/": b"/w/api/",
    b"/login?next=//x": b"/w/api/login?next=//x",
    b"/w/api": b"/w/api",
    b"/w/api/x": b"/w/api/x",
    b"/w/api?x": b"/w/api?x",
    b"/w/apis": b"/w/api/w/apis",
    b"//evil.test/x": b"/w/api/evil.test/x",
    b"/\\evil.test": b"/w/api/evil.test",
    b"\\\\evil.test": b"/w/api/evil.test",
    b"\\/evil.test": b"/w/api/evil.test",
    b"/\t/evil.test": b"/w/api/evil.test",
    b"http://127.0.0.1:3000/x": b"/w/api/x",
    b"http://127.0.0.1:3000": b"/w/api/",
    b"http://127.0.0.1:3000?q": b"/w/api/?q",
    b"HTTP://127.0.0.1:3000//evil.test": b"/w/api/evil.test",
    b"http://hub.test/x": b"/w/api/x",
    b"https://HUB.test/x": b"/w/api/x",
    b"http://hub.test/w/api/x": b"/w/api/x",
    b"http://hub.test:81/x": b"http://hub.test:81/x",
    b"http://hub.test@evil.test/": b"http://hub.test@evil.test/",
    b"http://127.0.0.1:30000/x": b"http://127.0.0.1:30000/x",
    b"https://other.test/x": b"https://other.test/x",
    b"relative/x": b"relative/x",
    b"?q=1": b"?q=1",
    b"": b"",
    b"mailto:a@b": b"mailto:a@b",
}
ON_ITS_OWN_HOST = {
    b"/login": b"/login",
    b"//evil.test/x": b"/evil.test/x",
    b"/\\evil.test": b"/evil.test",
    b"http://127.0.0.1:3000/x": b"/x",
    b"http://hub.test/x": b"http://hub.test/x",
    b"https://other.test/": b"https://other.test/",
}
PREFIX_KEPT = {
    b"/w/api/login": b"/w/api/login",
    b"/elsewhere": b"/elsewhere",
    b"//evil.test": b"/evil.test",
    b"http://hub.test/w/api/x": b"/w/api/x",
}


@pytest.mark.parametrize(("place", "expected"), BELOW_A_PATH.items())
def test_below_a_path(place: bytes, expected: bytes) -> None:
    assert relocate(place, forward(b"/w/api"), HOST) == expected


@pytest.mark.parametrize(("place", "expected"), ON_ITS_OWN_HOST.items())
def test_on_a_host_of_its_own(place: bytes, expected: bytes) -> None:
    assert relocate(place, forward(b""), HOST) == expected


@pytest.mark.parametrize(("place", "expected"), PREFIX_KEPT.items())
def test_where_the_workspace_knows_its_prefix(place: bytes, expected: bytes) -> None:
    assert relocate(place, forward(b"/w/api", b"/w/api/page"), HOST) == expected
