"""Tensor parallelism under autocast: the dtypes of sums, and errors beside one process."""

import pytest
from helpers import load_solved_lab

from pedagogy_lib import launch

AUTOCAST, MODELS = map(load_solved_lab, ("tensor_autocast", "language_model"))
TEXT = MODELS.standard_library(5_000)


@pytest.mark.parametrize("n", [2, 4])
def test_only_the_blocks_forward_sums_are_rounded(n):
    for autocast, wanted in ((False, {4: 10}), (True, {2: 4, 4: 6})):
        run = launch(AUTOCAST.step_under, autocast, TEXT, world_size=n, device="cpu")
        assert AUTOCAST.bytes_in_sums(run) == wanted
        for split, alike, exact in run.values:
            here, there = AUTOCAST.error_of(split, exact), AUTOCAST.error_of(alike, exact)
            assert here < 1e-6 if not autocast else 0.5 * there < here < 2 * there


def test_an_error_grows_with_the_ranks_only_where_parts_are_summed_in_bfloat16():
    one, many = (launch(AUTOCAST.row_product_errors, world_size=n, device="cpu").values[0]
                 for n in (1, 8))  # fmt: skip
    assert many["summed in bfloat16"] > 2 * one["summed in bfloat16"]
    assert many["in float32"] < 1.2 * one["in float32"]
