"""Make the steps of README.md: parts 00 and 00b in JupyterLab, as a learner sees them.

.venv/bin/python tools/screens.py    after: python3 tools/setup.py browser
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import Lab, Notebook, chromium  # noqa: E402

# Another question than the one that waits for the reader in part 00b.
PARAMETERS = "world_size = 2\nmegabytes = 10.0"
GUESS = "5"
# The pictures' names, and what stands in their cells.
CELLS = {"predict": "bytes_guess = predict(", "compare": "bytes_guess.compare("}
HANG = {"hang": "def one_rank_forgets()"}
# A wrong answer to an exercise, in place of its hole: each rank takes neighbouring samples.
WRONG = """
def my_samples(n, rank, world_size):
    each = n // world_size
    return list(range(rank * each, (rank + 1) * each))
"""
MARGIN = 4  # pixels around cells


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            lab.await_answer()
            with chromium(device_scale_factor=1.5) as page:
                shoot_hang(Notebook(page), lab.address("00_start_here"))
                shoot(Notebook(page), lab.address("00b_what_to_split"))
        finally:
            lab.end()


def shoot_hang(notebook, address):
    notebook.open(address)
    notebook.run_all()
    shoot_cells(cells_of(notebook, HANG))


def shoot(notebook, address):
    """Run the notebook, type a prediction, and take the pictures."""
    notebook.open(address)
    parameters = notebook.page.locator(".jp-CodeCell", has_text="megabytes = 4.0").first
    write(notebook, parameters, PARAMETERS)
    notebook.run_all()
    cells = cells_of(notebook, CELLS)
    field = cells["predict"].get_by_placeholder("your number")
    field.fill(GUESS)
    field.press("Enter")
    cells["compare"].get_by_role("img", name=f"predicted {GUESS} MB").wait_for()
    shoot_cells(cells)
    shoot_check(notebook)


def cells_of(notebook, names) -> dict:
    """{name: the first code cell that has these words}."""
    cells = notebook.page.locator(".jp-CodeCell")
    return {name: cells.filter(has_text=code).first for name, code in names.items()}


def shoot_cells(cells):
    for name, cell in cells.items():
        cell.screenshot(path=ROOT / "assets" / f"step_{name}.png")


def write(notebook, cell, source):
    """Put this in the place of what stands in a cell, and run it."""
    cell.locator(".cm-content").click()
    notebook.page.keyboard.press("Control+a")
    notebook.page.keyboard.insert_text(source)
    notebook.page.keyboard.press("Shift+Enter")


def shoot_check(notebook):
    """Answer an exercise wrongly, and take the answer and the verdict in one picture."""
    page, cells = notebook.page, notebook.page.locator(".jp-CodeCell")
    answer = cells.filter(has_text="def my_samples(").first
    check = cells.filter(has_text='check("0.3", my_samples)').first
    write(notebook, answer, WRONG.strip())
    page.keyboard.press("Shift+Enter")
    check.get_by_text("not yet").wait_for()
    answer.scroll_into_view_if_needed()
    check.scroll_into_view_if_needed()
    first, last = answer.bounding_box(), check.bounding_box()
    page.mouse.click(5, 5)  # so that no cell is marked as the one that is worked in
    page.screenshot(path=ROOT / "assets" / "step_check.png", clip={
        "x": first["x"] - MARGIN,
        "y": first["y"] - MARGIN,
        "width": first["width"] + 2 * MARGIN,
        "height": last["y"] + last["height"] - first["y"] + 2 * MARGIN,
    })  # fmt: skip


if __name__ == "__main__":
    main()
