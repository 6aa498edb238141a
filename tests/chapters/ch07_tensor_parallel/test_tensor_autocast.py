"""Tensor parallelism under autocast: the dtypes of sums, and errors beside one process."""

import pytest
from helpers import load_solved_lab

from pedagogy_lib import launch

AUTOCAST, MODELS = map(load_solved_lab, ("tensor_autocast", "language_model"))
TEXT = MODELS.standard_library(5_000)


FLOAT32 = {("forward", 4, 0): 5, ("backward", 4, 0): 5}
MIXED = {("forward", 4, 0): 1, ("forward", 2, 1): 4, ("backward", 4, 1): 5}


@pytest.mark.parametrize("n", [2, 4])
def test_all_sums_but_the_embeddings_add_rounded_parts(n):
    """Those of the backward have four bytes, and parts that two bytes could hold."""
    for autocast, wanted in ((False, FLOAT32), (True, MIXED)):
        run = launch(AUTOCAST.step_under, autocast, TEXT, world_size=n, device="cpu")
        for sums, split, alike, exact in run.values:
            assert sums == wanted
            here, there = AUTOCAST.error_of(split, exact), AUTOCAST.error_of(alike, exact)
            assert here < 1e-6 if not autocast else 0.5 * there < here < 2 * there


def test_an_error_grows_with_the_ranks_only_where_parts_are_summed_in_bfloat16():
    one, many = (launch(AUTOCAST.row_product_errors, world_size=n, device="cpu").values[0]
                 for n in (1, 8))  # fmt: skip
    assert many["summed in bfloat16"] > 2 * one["summed in bfloat16"]
    assert many["in float32"] < 1.2 * one["in float32"]
