"""Headless Chromium for tests of reports and live pages."""

import shutil
import subprocess

import pytest


def open_page(url, profile, *options):
    """Load a page in Chromium; skip the test where there is none.

    Returns:
        The ended process: its output is the document if ``--dump-dom`` is given.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("needs the package chromium")
    command = [
        *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--enable-logging=stderr", "--log-level=0", f"--user-data-dir={profile}"),
        *("--disable-background-networking", "--disable-component-update", *options, url),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if ended.returncode != 0:
        pytest.skip("the browser of the package chromium does not start here")
    return ended
