"""No answer is in a handout; and one that is put there is found, wherever it stands."""

import io
import json
import zipfile

import pytest
from handouts import files_of

from classroom.handout.answer_search import answers, search
from classroom.handout.false_positives import find_unreviewed_leaks
from coursekit.kit.packed_checks import pack_check

RING = "chapters/ch02_collectives/labs/collectives.py all_reduce_ring"
RENAMED = """parts = list(t.view(-1).tensor_split(dist.get_world_size(team)))
scatter_sums(parts, team)
gather(parts, team)"""


def search_file(name, data: bytes) -> set[str]:
    return {found.piece.whose for found in search({name: data})}


def plant_code(text) -> dict[str, bytes]:
    """The same code in all the places in which it may hide."""
    notebook = {"cells": [{"cell_type": "code", "source": ["x = 1\n", text]}]}
    words = {
        "cells": [{"cell_type": "markdown", "source": f"Write\n```python\n{text}\n```\nthere."}]
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/b.py", text)
    return {
        "labs/one.py": text.encode(),
        "pedagogy_lib/two.py": f"SOME = {text!r}".encode(),
        "notebooks/three.ipynb": json.dumps(notebook).encode(),
        "notebooks/four.ipynb": json.dumps(words).encode(),
        "data/five.json": json.dumps({"a": [text]}).encode(),
        "README.md": f"See:\n```\n{text}\n```\n".encode(),
        "AGENTS.md": f"Do not show this:\n```python\n{text}\n```\n".encode(),
        "chapters/ch02_collectives/exercises/six/check.py": pack_check(f"{text}\n").encode(),
        "more.zip": packed.getvalue(),
    }


@pytest.mark.parametrize("place", plant_code("x"))
def test_a_planted_answer_is_found(place):
    assert RING in search_file(place, plant_code(RENAMED)[place])


def test_the_whole_of_an_answer_is_found_as_a_lambda_a_function_and_a_text():
    for text in (
        "f = lambda a, b, c: a * c + b",
        "def f(a, b, c):\n    return a * c + b",
        "TEXT = 'a * c + b'",
    ):
        assert "chapters/ch00_start_here/00_start_here.py global_rank" in search_file(
            "a.py", text.encode()
        )
    assert search_file("a.py", b"x = a * c + b") == set()  # a part so small says nothing


def test_every_exercise_has_pieces_that_are_searched():
    whose = {piece.whose for piece in answers().values()}
    assert {RING, "truth or mistakes of sent_bytes"} <= whose
    assert len(answers()) > 2000


def test_no_answer_is_in_a_handout():
    """This includes what an assistant finds: its guidance, and checks that are unpacked."""
    files = files_of("02")
    assert {"AGENTS.md", "chapters/ch02_collectives/exercises/swap/check.py"} <= {*files}
    assert list(map(str, find_unreviewed_leaks(search(files)))) == []


@pytest.mark.deep
def test_no_answer_is_in_the_handout_of_everything():
    assert list(map(str, find_unreviewed_leaks(search(files_of())))) == []
