"""Where Chromium is, for the tests that need one."""

from __future__ import annotations

import shutil

from tests.conftest import require


def find_chromium() -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    require("browser", program is not None, "there is no chromium on the PATH")
    return program or ""
