"""Chapters under papermill: other parameters, and nobody there to answer."""

import nbformat
import papermill
import pytest

from pedagogy_lib import build

PARAMETERS = {"00_start_here": {"world_size": 3, "megabytes": 1.5}}


@pytest.mark.slow
@pytest.mark.parametrize("source", build.sources(), ids=lambda path: path.stem)
def test_a_chapter_with_holes_runs_with_other_parameters(source, tmp_path):
    notebook = build.ROOT / "notebooks" / f"{source.stem}.ipynb"
    parameters = PARAMETERS[source.stem]
    names = papermill.inspect_notebook(str(notebook))
    assert set(parameters) <= set(names), "papermill only warns of unknown names"
    done = tmp_path / notebook.name
    papermill.execute_notebook(
        notebook, done, parameters, cwd=notebook.parent, progress_bar=False, kernel_name="python3"
    )
    shown = nbformat.writes(nbformat.read(done, as_version=4))
    assert "3 ranks · Gloo on the CPU" in shown
    assert "theory 2 MB; measured 2.00" in shown
