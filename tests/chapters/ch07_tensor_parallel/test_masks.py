"""`plot_masks`: what dropout keeps on each rank."""

import torch
from helpers import load_solved_lab

plot_masks = load_solved_lab("dropout_masks").plot_masks


def test_equal_masks_and_different_ones():
    mask = torch.tensor([[True, False, True], [True, True, False]])
    picture = plot_masks({"alike": [mask, mask], "not alike": [mask, ~mask]}, title="Masks")
    assert "alike: 3 different columns of 6" in picture.alt
    assert "not alike: 4 different columns of 6" in picture.alt
    top, bottom = picture.figure.axes
    assert len(top.images) == len(bottom.images) == 2
    assert top.get_xlim() == (0, 6)
    assert [image.get_extent()[:2] for image in top.images] == [[0, 3], [3, 6]]
    assert [round(pixel[3], 1) for pixel in top.images[0].get_array()[0]] == [1.0, 0.0, 1.0]


def names_in(axes):
    return {text.get_text(): text.get_position()[0] for text in axes.texts}


def test_blocks_have_their_ranks_names():
    """Above the first panel, in the middle of each block, unless there are too many ranks."""
    masks = [torch.ones(2, 4, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)]
    top, bottom = plot_masks({"one": masks, "another": masks}).figure.axes
    assert names_in(top) == {"rank 0": 2, "rank 1": 5.5} and not names_in(bottom)
    (axes,) = plot_masks({"nine": masks[:1] * 9}).figure.axes
    assert not names_in(axes)
