"""Debian's Chromium, driven by Playwright from PyPI, which is installed into target/playwright."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

PLAYWRIGHT = "1.65.2"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def use_playwright():
    """Starts the script again with the Python that has Playwright, unless it is that one."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    home = target / f"playwright-{PLAYWRIGHT}"
    if pathlib.Path(sys.prefix) == home:
        return
    # The program is there when everything is installed.
    if not (home / "bin/playwright").exists():
        venv.create(home, with_pip=True)
        install = [home / "bin/pip", "install", "--quiet", f"playwright=={PLAYWRIGHT}"]
        subprocess.run(install, check=True)
    os.execv(home / "bin/python", [home / "bin/python", *sys.argv])


@contextlib.contextmanager
def window(width, height, scale=1.0):
    """Opens a window of this size. Yields its page, the addresses that it asks for, and its errors."""
    from playwright.sync_api import sync_playwright

    asked, errors = [], []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--force-color-profile=srgb"]
        )
        page = chromium.new_page(
            viewport={"width": width, "height": height}, device_scale_factor=scale, reduced_motion="reduce"
        )
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        yield page, asked, errors
        chromium.close()


def screenshot(page, path, first, last=None, margin=8):
    """Writes a PNG of the page from the top of the element that the selector `first` finds to the
    bottom of the one that `last` finds, as wide as both."""
    boxes = [page.locator(selector).first.bounding_box() for selector in (first, last or first)]
    left = max(0, min(box["x"] for box in boxes) - margin)
    right = max(box["x"] + box["width"] for box in boxes) + margin
    top, bottom = max(0, boxes[0]["y"] - margin), boxes[-1]["y"] + boxes[-1]["height"] + margin
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    page.screenshot(path=path, clip=clip, full_page=True)
