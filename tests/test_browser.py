"""A chapter as a person sees it: JupyterLab in Chromium, all cells run, a slider moved."""

import json
import os
import shutil
import socket
import sys
import urllib.request

import pytest
from helpers import ROOT, wait_until

sync_api = pytest.importorskip("playwright.sync_api", reason="python tools/setup.py browser")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
]

TOKEN = "letmein"
# Else JupyterLab renders only the cells that are on the screen.
SETTINGS = {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}}
EVERY_CELL_HAS_RUN = r"""
[...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].every(
    prompt => /\[\d+\]/.test(prompt.textContent)
)"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def lab_url(start, tmp_path):
    """JupyterLab on a copy of the notebooks, with settings of its own."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for name, values in SETTINGS.items():
        path = tmp_path / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values))
    port = free_port()
    options = ["--no-browser", f"--port={port}", f"--IdentityProvider.token={TOKEN}"]
    if os.geteuid() == 0:
        options.append("--allow-root")
    start(
        [sys.executable, "-m", "jupyterlab", *options],
        tmp_path,
        JUPYTERLAB_SETTINGS_DIR=str(tmp_path / "settings"),
        JUPYTERLAB_WORKSPACES_DIR=str(tmp_path / "workspaces"),
    )
    url = f"http://127.0.0.1:{port}"
    assert wait_until(lambda: answers(f"{url}/api?token={TOKEN}"), 60)
    return url


def answers(url) -> bool:
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


@pytest.fixture
def page():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def run_all_cells(page):
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # else it asks for a kernel
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    for _ in range(180):
        page.wait_for_timeout(1000)  # asking all the time would keep the page from its work
        if page.evaluate(EVERY_CELL_HAS_RUN):
            return
    raise AssertionError("the notebook has not run to its end in three minutes")


@pytest.mark.deep
def test_chapter_02(lab_url, page, tmp_path):
    page.goto(f"{lab_url}/lab/tree/notebooks/02_collectives.ipynb?token={TOKEN}")
    run_all_cells(page)
    assert page.locator('.jp-OutputArea-output[data-mime-type*="stderr"]').count() == 0

    # The slider moves the chunks round the ring.
    first = page.locator('img[alt^="Step 1 of 6"]')
    before = first.get_attribute("src")
    page.locator(".course", has=first).get_by_role("slider", name="step").focus()
    page.keyboard.press("ArrowRight")
    second = page.locator('img[alt^="Step 2 of 6"]')
    second.wait_for()
    assert second.get_attribute("src") != before
    page.keyboard.press("End")
    page.locator('img[alt^="Step 6 of 6"]').wait_for()

    # A prediction is noted.
    box = page.get_by_placeholder("your number").first
    box.fill("0,7")
    box.press("Enter")
    page.get_by_text("noted: 0.7 s").wait_for()
    assert "0.7" in (tmp_path / "notebooks" / ".predictions.json").read_text()
    page.screenshot(path=tmp_path / "page.png")
