"""Make the steps of README.md: chapter 00 in JupyterLab, as a learner sees it.

.venv/bin/python tools/screens.py    after: python3 tools/setup.py browser
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import Lab, Notebook, chromium  # noqa: E402

GUESS = "8"
# The pictures' names, and what stands in their cells.
CELLS = {"predict": "bytes_guess = predict(", "compare": "bytes_guess.compare(",
         "hang": "def one_rank_forgets()"}  # fmt: skip


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            lab.await_answer()
            with chromium(device_scale_factor=1.5) as page:
                shoot(Notebook(page), lab.address("00_start_here"))
        finally:
            lab.end()


def shoot(notebook, address):
    """Run the notebook, type a prediction, and take the pictures."""
    notebook.open(address)
    notebook.run_all()
    cells = {name: notebook.page.locator(".jp-CodeCell", has_text=code).first
             for name, code in CELLS.items()}  # fmt: skip
    field = cells["predict"].get_by_placeholder("your number")
    field.fill(GUESS)
    field.press("Enter")
    cells["compare"].get_by_role("img", name=f"predicted {GUESS} MB").wait_for()
    for name, cell in cells.items():
        cell.screenshot(path=ROOT / "assets" / f"step_{name}.png")


if __name__ == "__main__":
    main()
