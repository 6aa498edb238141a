"""The pictures of README.md show what a learner sees now."""

import sys

import pytest
from helpers import ROOT
from PIL import Image

sys.path.insert(0, str(ROOT / "tools"))

import screens


@pytest.mark.parametrize("name", screens.SHOWN)
def test_a_picture_shows_the_cells_as_they_are(name):
    with Image.open(screens.path_of(name)) as image:
        assert image.text[screens.MADE_OF] == screens.digest_cells(name), "run tools/screens.py"


def test_the_readme_has_no_other_picture():
    used = {path.name for path in (ROOT / "assets").glob("*.png")}
    assert used == {"first_look.png", *(screens.path_of(name).name for name in screens.SHOWN)}
    readme = (ROOT / "README.md").read_text()
    assert not [name for name in used if f"assets/{name}" not in readme]
