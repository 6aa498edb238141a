"""Whether tests leave files behind: this session, and all that it starts, have a TMPDIR of its own.

Each worker of pytest-xdist has a folder in it, so that what is left has one test that made it.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from helpers import list_leftovers

TORCH = "torchinductor_"  # what torch keeps wherever its compiler is imported, as by an optimizer
WORKER = "worker-"


class Plugin:
    def __init__(self, config):
        self.is_worker = hasattr(config, "workerinput")
        self.seen: dict[str, str] = {}  # {what lies there: the test that had just run}
        self.left: list[str] = []
        if not self.is_worker:
            self.for_pytest = Path(tempfile.mkdtemp(prefix="course-tmp-paths-"))
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.for_pytest)  # its workers inherit it
        prefix = WORKER if self.is_worker else "course-tests-"
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self.folder.chmod(0o711)  # sandboxes in it may run as another user
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.folder)

    def pytest_runtest_logfinish(self, nodeid):
        for path in self.folder.iterdir():
            self.seen.setdefault(path.name, nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        names = list_leftovers(self.folder, but=(TORCH, WORKER))
        self.left += [f"{name}, made by {self.seen.get(name, 'no test')}" for name in names]
        if self.is_worker:
            session.config.workeroutput["left"] = self.left
        elif self.left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.OK:  # else they may tell why
            shutil.rmtree(self.for_pytest, ignore_errors=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.left += getattr(node, "workeroutput", {}).get("left", ())

    def pytest_terminal_summary(self, terminalreporter):
        if self.left:
            terminalreporter.section("left behind in the temporary directory")
            for line in self.left:
                terminalreporter.line(line)

    def pytest_unconfigure(self):
        shutil.rmtree(self.folder, ignore_errors=True)
