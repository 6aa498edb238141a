"""Parts under papermill: other parameters, and nobody there to answer."""

import json
from operator import attrgetter

import nbformat
import papermill
import pytest

from coursekit.building import build
from coursekit.chapters import parts


@pytest.mark.slow
@pytest.mark.parametrize("part", parts().values(), ids=attrgetter("stem"))
@pytest.mark.deep
def test_a_part_with_holes_runs_with_other_parameters(part, tmp_path):
    notebook = build.ROOT / "notebooks" / f"{part.stem}.ipynb"
    names = papermill.inspect_notebook(str(notebook))
    assert set(part.tried_with) <= set(names), "papermill only warns of unknown names"
    done = tmp_path / notebook.name
    papermill.execute_notebook(
        notebook,
        done,
        part.tried_with,
        cwd=notebook.parent,
        progress_bar=False,
        kernel_name="python3",
    )
    outputs = [cell.get("outputs") for cell in nbformat.read(done, as_version=4).cells]
    shown = " ".join(json.dumps(outputs, ensure_ascii=False).split())
    for phrase in part.then_shows:
        assert phrase in shown
