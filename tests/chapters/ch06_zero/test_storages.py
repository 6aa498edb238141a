"""The picture of a storage and the tensors that show parts of it."""

import pytest
import torch
from helpers import load_solved_lab

from pedagogy_lib import LaunchError

STORAGES = load_solved_lab("storages")
looks_of, plot_storages = STORAGES.looks_of, STORAGES.plot_storages


def looks():
    flat = torch.arange(6.0)
    tensors = {"flat": flat, "view": flat[2:5], "copy": flat[:2].clone(), "none": flat[:0]}
    before = looks_of(tensors)
    flat.untyped_storage().resize_(0)
    return {"before": before, "after": looks_of(tensors)}


def test_what_tensors_look_at():
    before, after = looks().values()
    assert before["view"].storage == before["flat"].storage != before["copy"].storage
    assert (before["view"].start, before["view"].length) == (2, 3)
    assert before["flat"].values == [0, 1, 2, 3, 4, 5] and before["copy"].values == [0, 1]
    assert after["view"] == before["view"]._replace(values=[])


def test_the_picture_tells_how_much_is_there():
    picture = plot_storages(looks(), title="a storage")
    assert "before: the storage has 6 numbers; flat shows 6, view shows 3" in picture.alt
    assert "after: the storage has 0 numbers" in picture.alt
    assert picture.png()


def test_what_cannot_be_drawn():
    with pytest.raises(LaunchError, match="at least one moment"):
        plot_storages({})
    with pytest.raises(LaunchError, match="at most 12 numbers"):
        plot_storages({"now": looks_of({"flat": torch.zeros(13)})})
