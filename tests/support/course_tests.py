"""What tests of the course have on top of those of the bench: its solved labs, and deep stages."""

import helpers
import pytest
import selection

from classroom.sandbox.course import release
from coursekit import labs as coursekit_labs
from coursekit.building import build
from coursekit.kit import diagnoses

diagnoses.MAY_FAIL = False


def pytest_sessionfinish():
    release()  # the course that sandboxes have been given


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items):
    selection.mark_deep(items)


@pytest.fixture(scope="session")
def solution_folder(tmp_path_factory):
    """The folder of a course in which all labs are solved, and {each file of it: its text}."""
    folder, texts = tmp_path_factory.mktemp("solved"), {}
    for place in (folder / "labs", folder / "solutions" / "labs"):
        place.mkdir(parents=True)
        for source in build.lab_sources():
            texts[place / source.name] = build.keep_answers(build.text_of(source))
    for path, text in texts.items():
        path.write_text(text)
    return folder, texts


@pytest.fixture
def solution_labs(solution_folder, monkeypatch):
    """The same folder as the course of a test, which may change its files."""
    folder, texts = solution_folder
    monkeypatch.setattr(coursekit_labs, "ROOT", folder)
    yield folder
    for path, text in texts.items():
        if path.read_text() != text:
            path.write_text(text)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Solve all labs; learners have changed some: course(lab=what became of the solved text)."""

    def make(**changes):
        for path in build.lab_sources():
            text = build.text_of(path)
            change = changes.get(path.stem, build.keep_answers)
            helpers.put_lab(tmp_path, monkeypatch, path.stem, change(text), text)

    return make
