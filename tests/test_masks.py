"""`plot_masks`: what dropout keeps on each rank."""

import torch

from pedagogy_lib import plot_masks


def test_equal_masks_and_different_ones():
    mask = torch.tensor([[True, False, True], [True, True, False]])
    picture = plot_masks({"alike": [mask, mask], "not alike": [mask, ~mask]}, title="Masks")
    assert "alike: 3 different columns of 6" in picture.alt
    assert "not alike: 4 different columns of 6" in picture.alt
    top, bottom = picture.figure.axes
    assert len(top.images) == len(bottom.images) == 2
    assert top.get_xlim() == (-0.5, 5.5)
    assert [round(pixel[3], 1) for pixel in top.images[0].get_array()[0]] == [1.0, 0.0, 1.0]
