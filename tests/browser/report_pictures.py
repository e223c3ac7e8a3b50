"""The pictures of the report in the documentation, made anew:

python -m tests.browser.report_pictures docs/images/report
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from codehub.render.report_html import about_below, report_html
from tests.browser.driven import driven
from tests.browser.pictures import packed
from tests.browser.rendered import keep
from tests.snapshots import report_cases

SITE: Final = "https://codehub.example.com"
SIZES: Final = {"wide": (1400, 1240), "narrow": (390, 1100)}


def rendered() -> dict[str, str]:
    return {"report": report_html(report_cases.busy(), below=about_below(SITE))}


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        driven(Path(place)) as tab,
    ):
        page = Path(place) / "report.html"
        page.write_text(rendered()["report"])
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                tab.look_like(width, height, dark=scheme == "dark")
                tab.open(page.as_uri())
                (directory / f"{size}-{scheme}.png").write_bytes(packed(tab.picture()))
    keep(directory, rendered())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
