"""JupyterLab on a copy of the course, in Chromium, for tests that see what a learner sees."""

import json
import re
import shutil
import socket
import sys
import urllib.request
from contextlib import contextmanager

import helpers
from helpers import ROOT, wait_until
from needs import CHROMIUM

from coursekit.building import build
from coursekit.copies.working_copies import WORK

TOKEN = "letmein"
# Without "none", JupyterLab renders only the cells that are on the screen.
SETTINGS = {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}}
THEMES = "@jupyterlab/apputils-extension/themes"
ROOMS = ("notebooks", "labs", "pedagogy_lib", "coursekit", "chapters", "assets")
MANY_SECONDS, FEW_SECONDS = 60, 20
HAS_RUN = re.compile(r"\[\d+\]")


class Lab:
    """A copy of the course, and `python -m pedagogy_lib lab` on it.

    Members
        folder  of the copy
        url     of the server
    """

    def __init__(self, folder):
        self.folder = folder
        for room in ROOMS:
            shutil.copytree(ROOT / room, folder / room)
        shutil.copytree(ROOT / "solutions" / "labs", folder / "solutions" / "labs")
        self.settle(dark=False)
        self.url = f"http://127.0.0.1:{free_port()}"
        options = ["--no-browser", f"--port={self.url.split(':')[-1]}",
                   f"--IdentityProvider.token={TOKEN}"]  # fmt: skip
        self.program = helpers.start(
            [sys.executable, "-m", "pedagogy_lib", "lab", *options],
            folder,
            PYTHONPATH=str(folder),
            JUPYTERLAB_SETTINGS_DIR=str(folder / "settings"),
            JUPYTERLAB_WORKSPACES_DIR=str(folder / "workspaces"),
        )

    def settle(self, dark):
        theme = {THEMES: {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}}
        for name, values in {**SETTINGS, **theme}.items():
            path = self.folder / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))

    def await_answer(self):
        assert wait_until(self.answers, MANY_SECONDS)

    def answers(self) -> bool:
        try:
            return urllib.request.urlopen(f"{self.url}/api?token={TOKEN}", timeout=5).status == 200
        except OSError:
            return False

    def write(self, name, text):
        """A notebook of the learner's, from cells in percent format, without predictions."""
        (self.folder / WORK / ".predictions.json").unlink(missing_ok=True)
        (self.folder / WORK / f"{name}.ipynb").write_text(
            build.dump(build.make_notebook(text.strip(), name))
        )

    def address(self, name) -> str:
        return f"{self.url}/lab/tree/{WORK}/{name}.ipynb?reset&token={TOKEN}"

    def end_kernels(self):
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", method="DELETE")

    def ask(self, what, method="GET"):
        """An answer of the server's REST interface."""
        address = f"{self.url}/api/{what}?token={TOKEN}"
        request = urllib.request.Request(address, method=method)
        return json.loads(urllib.request.urlopen(request, timeout=30).read() or "null")

    def end(self):
        helpers.end(self.program)


class Notebook:
    """A page with a notebook in it; `complaints` has what the browser's console calls errors."""

    def __init__(self, page):
        self.page, self.complaints = page, []
        page.set_default_timeout(1000 * FEW_SECONDS)
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))

    def open(self, address):
        self.page.goto(address)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # else it asks for a kernel

    def cell(self, number):
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def run(self, number):
        """Start one cell; returns at once."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def run_all(self):
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_text("Run All Cells", exact=True).click()
        self.await_prompts(self.page.locator(".jp-CodeCell .jp-InputPrompt"), 2 * MANY_SECONDS)

    def await_prompts(self, prompts, seconds):
        for _ in range(2 * seconds):  # folded cells have no prompt
            self.page.wait_for_timeout(500)  # asking all the time would keep it from its work
            if all(map(HAS_RUN.search, filter(None, prompts.all_text_contents()))):
                return
        raise AssertionError(f"not all cells have run in {seconds} s")

    def await_end_of(self, number):
        self.await_prompts(self.cell(number).locator(".jp-InputPrompt"), MANY_SECONDS)

    def assert_quiet(self):
        """Nothing on stderr, nothing on the console."""
        assert self.page.locator('[data-mime-type*="stderr"]').all_text_contents() == []
        assert self.complaints == []


@contextmanager
def chromium(width=1200, **settings):
    """Chromium with one page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        program = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield program.new_page(viewport={"width": width, "height": 1000}, **settings)
        program.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
