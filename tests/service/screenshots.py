"""Takes screenshots of each view of a dashboard: `python -m tests.service.screenshots LINK FOLDER`.

LINK is the address that `dpbandits demo --stay` prints.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from dpbandits.service.dashboard._views import VIEWS

from .test_browser import CHROMIUM, FLAGS

SIZES = {"desktop": (1100, 700), "phone": (390, 800)}


def main(link: str, folder: Path) -> None:
    """Write one small PNG file per view, colour scheme and size."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            for name, (width, height) in SIZES.items():
                context = browser.new_context(
                    ignore_https_errors=True,
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                page = context.new_page()
                page.goto(link)
                while "predicted for the end" not in page.content():  # until the analysis is complete
                    page.goto(f"{link.split('/open')[0]}/time")
                for view in VIEWS:
                    page.goto(f"{link.split('/open')[0]}/{view}")
                    page.wait_for_timeout(500)
                    shot = Image.open(io.BytesIO(page.screenshot(full_page=view != "options")))
                    path = folder / f"dashboard-{view}-{scheme}-{name}.png"
                    shot.convert("RGB").quantize(128).save(path, optimize=True)
                context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
