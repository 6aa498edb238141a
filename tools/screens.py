"""Make the pictures of README.md's steps: parts 00, 00b and 00c, as JupyterLab shows them.

.venv/bin/python tools/screens.py    after: python3 tools/setup.py browser

Each picture has a digest of the cells that it shows, which tests/project/test_screens.py compares
with a digest of the current cells.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from coursekit.building import build
from coursekit.chapters import exercise_numbers
from coursekit.check_runner import find_exercise

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import Lab, Notebook, chromium  # noqa: E402

EXERCISE = exercise_numbers()["my_samples"]
MADE_OF = "made of"  # the name of the digest in a file
# A different question from the one that part 00c asks the reader.
PARAMETERS = "world_size = 2\nmegabytes = 10.0"
GUESS = "5"
# {picture: (the part that it shows, code that each of its cells contains)}
SHOWN = {
    "hang": ("00_start_here", ["def one_rank_forgets()"]),
    "predict": ("00c_what_to_believe", ["bytes_guess = predict("]),
    "compare": ("00c_what_to_believe", ["bytes_guess.compare("]),
    "check": ("00b_what_to_split", ["def my_samples(", f'check("{EXERCISE}", my_samples)']),
}
# A wrong answer to an exercise, instead of its hole: each rank takes neighbouring samples.
WRONG = """
def my_samples(n, rank, world_size):
    each = n // world_size
    return list(range(rank * each, (rank + 1) * each))
"""
MARGIN = 4  # pixels around cells


def path_of(name) -> Path:
    return ROOT / "assets" / f"step_{name}.png"


def digest_cells(name) -> str:
    """Return a digest of all that a picture shows: its cells, the typed text and the check."""
    part, words = SHOWN[name]
    text = build.insert_holes(build.text_of(build.source_of(part)))
    cells = [cell.source for cell in build.code_of(build.make_notebook(text, part))]
    shown = [next(source for source in cells if code in source) for code in words]
    exercise = find_exercise(EXERCISE)
    typed = [WRONG, exercise.name, *exercise.hints] if name == "check" else [PARAMETERS, GUESS]
    return hashlib.sha256(repr([shown, typed]).encode()).hexdigest()


def mark(name):
    """Reduce a picture to 256 colours, and store the digest of what it shows in the file."""
    info = PngInfo()
    info.add_text(MADE_OF, digest_cells(name))
    with Image.open(path_of(name)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            path_of(name), pnginfo=info, optimize=True
        )


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            lab.await_answer()
            with chromium(device_scale_factor=1.5) as page:
                for shoot in (shoot_hang, shoot_prediction, shoot_check):
                    shoot(Notebook(page), lab)
        finally:
            lab.end()
    for name in SHOWN:
        mark(name)


def shoot_hang(notebook, lab):
    notebook.open(lab.address(SHOWN["hang"][0]))
    notebook.run_all()
    shoot_cell(notebook, "hang")


def shoot_prediction(notebook, lab):
    """Change the question, run the notebook, type a prediction, and take the pictures."""
    notebook.open(lab.address(SHOWN["predict"][0]))
    write(notebook, cell_with(notebook, "world_size = 4\nmegabytes = 4.0"), PARAMETERS)
    notebook.run_all()
    field = cell_with(notebook, *SHOWN["predict"][1]).get_by_placeholder("your number")
    field.fill(GUESS)
    field.press("Enter")
    picture = notebook.page.get_by_role("img", name=f"predicted {GUESS} MB")
    picture.wait_for()
    shoot_cell(notebook, "predict")
    # Its code is folded, so it can only be found by its picture.
    compared = notebook.page.locator(".jp-CodeCell").filter(has=picture).first
    compared.screenshot(path=path_of("compare"))


def cell_with(notebook, code):
    """Return the first code cell that contains the first line of this code."""
    return notebook.page.locator(".jp-CodeCell").filter(has_text=code.partition("\n")[0]).first


def shoot_cell(notebook, name):
    (code,) = SHOWN[name][1]
    cell_with(notebook, code).screenshot(path=path_of(name))


def write(notebook, cell, source):
    """Replace the source of a cell, and run the cell."""
    cell.locator(".cm-content").click()
    notebook.page.keyboard.press("Control+a")
    notebook.page.keyboard.insert_text(source)
    notebook.page.keyboard.press("Shift+Enter")


def shoot_check(notebook, lab):
    """Answer an exercise wrongly, and take the answer and the verdict in one picture."""
    notebook.open(lab.address(SHOWN["check"][0]))
    notebook.run_all()
    page = notebook.page
    answer, check = (cell_with(notebook, code) for code in SHOWN["check"][1])
    write(notebook, answer, WRONG.strip())
    page.keyboard.press("Shift+Enter")
    check.get_by_text("not yet").wait_for()
    answer.scroll_into_view_if_needed()
    check.scroll_into_view_if_needed()
    first, last = answer.bounding_box(), check.bounding_box()
    page.mouse.click(5, 5)  # so that no cell is marked as the active one
    page.screenshot(path=path_of("check"), clip={
        "x": first["x"] - MARGIN,
        "y": first["y"] - MARGIN,
        "width": first["width"] + 2 * MARGIN,
        "height": last["y"] + last["height"] - first["y"] + 2 * MARGIN,
    })  # fmt: skip


if __name__ == "__main__":
    main()
