"""The views in assets/views/ are those that the executed parts name, and no others."""

import json

import nbformat
import pytest

from coursekit.building import build
from coursekit.building.views_of_parts import files_of, find_view_names, fresh_views, wrong_views
from pedagogy_lib.basics import screen

SOURCE = """# %%
from pedagogy_lib import explore, plot_bars

# %% tags=["parameters"]
shown = [2, 1]

# %%
explore(lambda n: plot_bars(["a"], {"b": [n]}, "MB"), n=shown)
"""


def records():
    paths = map(build.record_of, build.sources())
    return [nbformat.read(path, as_version=4) for path in paths if path.exists()]


def test_recorded_views_are_current():
    names = [name for record in records() for name in find_view_names(record)]
    assert wrong_views(build.views_folder(), names) == [], "run `make build`"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one part with controls."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    source = tmp_path / "chapters" / "ch00_move" / "00_move.py"
    source.parent.mkdir(parents=True)
    (tmp_path / "solutions").mkdir()
    source.write_text(SOURCE)
    return source


def put(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("old")


@pytest.mark.deep
def test_the_build_records_views_and_removes_those_of_the_last_one(course, monkeypatch):
    views = build.views_folder()
    put(views, "00_move-1.json", "00_move-7.json", "00_move-beef.webp", "00_moved-1.json")
    build.build()
    notebook = nbformat.read(build.record_of(course), as_version=4)
    (output,) = notebook.cells[-1].outputs
    assert set(output.metadata) == {"explorer", "image/png"}
    assert output.metadata["explorer"] == "00_move-1" and find_view_names(notebook) == ["00_move-1"]
    assert (views / "00_moved-1.json").read_text() == "old", "it is another part's"
    assert wrong_views(views, ["00_move-1"]) == ["nothing names 00_moved-1.json"]
    record = json.loads((views / "00_move-1.json").read_text())
    assert record["controls"][0]["texts"] == ["1", "2"] and len(files_of(views, "00_move")) == 3

    course.write_text(SOURCE.replace("[2, 1]", "[3]"))
    build.build()
    assert len(files_of(views, "00_move")) == 2
    course.write_text(SOURCE.replace("explore(", "dict(draw="))
    build.build()
    assert [path.name for path in views.iterdir()] == ["00_moved-1.json"]


def test_new_text_leaves_the_views_as_they_are(course, monkeypatch):
    build.build()
    before = {path: path.stat().st_mtime_ns for path in build.views_folder().iterdir()}
    monkeypatch.setattr(build, "execute", lambda *_: pytest.fail("it is executed"))
    course.write_text(f"# %% [markdown]\n# More text.\n\n{SOURCE}")
    build.build()
    assert {path: path.stat().st_mtime_ns for path in build.views_folder().iterdir()} == before
    notebook = nbformat.read(build.record_of(course), as_version=4)
    assert find_view_names(notebook) == ["00_move-1"]


def test_executed_without_a_folder_nothing_is_recorded(course, monkeypatch):
    monkeypatch.delenv(screen.VIEWS, raising=False)
    assert find_view_names(build.execute(course)) == []
    assert not (build.ROOT / "assets").exists()


def test_a_part_that_fails_keeps_its_old_views(tmp_path):
    put(tmp_path, "00_move-1.json")
    with pytest.raises(ZeroDivisionError), fresh_views(tmp_path, "00_move") as fresh:
        put(fresh, "00_move-1.json", "00_move-2.json")
        1 / 0  # noqa: B018
    assert [path.name for path in tmp_path.iterdir()] == ["00_move-1.json"]
    assert not fresh.exists()


def test_what_is_missing_and_what_nobody_names_is_told(tmp_path):
    folder = tmp_path / "views"
    assert wrong_views(folder, []) == []
    assert wrong_views(folder, ["00_move-1"]) == ["00_move-1.json is missing"]
    put(folder, "00_move-a.webp", "00_move-b.webp")
    views = {"1": {"src": "00_move-a.webp"}, "2": {"src": "00_move-c.webp"}}
    (folder / "00_move-1.json").write_text(json.dumps({"views": views}))
    assert wrong_views(folder, ["00_move-1"]) == [
        "00_move-c.webp is missing", "nothing names 00_move-b.webp",
    ]  # fmt: skip
