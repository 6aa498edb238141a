"""What a Llama block keeps for its backward, and the calculator's figures for a small Llama."""

import pytest
import torch
from helpers import load_solved_lab

from coursekit.building import build

KEPT, LLAMA = load_solved_lab("kept_tensors"), load_solved_lab("llama")
SHAPES = [  # samples, context, width, heads, kv_heads, inside
    (2, 16, 64, 4, 2, 170), (1, 8, 32, 8, 1, 50), (3, 20, 48, 6, 6, 128), (1, 1, 16, 2, 1, 10),
    (1, 7, 24, 3, 1, 9), (4, 5, 40, 4, 4, 1),
]  # fmt: skip


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_formula_has_every_byte_that_a_block_keeps(shape, dtype):
    samples, context, width, *rest = shape
    x = torch.randn(samples, context, width, dtype=dtype, requires_grad=True)
    kept = KEPT.count_saved_by_module(LLAMA.LlamaBlock(width, *rest).to(dtype), x)
    assert KEPT.kept_by_llama_block(*shape, size=x.itemsize) == sum(kept.values())


def test_a_shape_has_a_llamas_parameters():
    fits = load_solved_lab("what_fits")
    shape = fits.LLAMA
    model = LLAMA.Llama(shape.width, shape.layers, shape.heads, shape.context, False,
                        shape.kv_heads, shape.mlp)  # fmt: skip
    assert sum(p.numel() for p in model.parameters()) == shape.parameters


def test_the_calculator_needs_to_know_a_llamas_block():
    fits = load_solved_lab("what_fits")
    text = load_solved_lab("language_model").standard_library(20_000)
    measured, by_gpt, by_llama = map(fits.total_of, fits.compare_llama(text).values())
    assert by_gpt < 0.85 * measured
    assert measured < by_llama < 1.03 * measured
