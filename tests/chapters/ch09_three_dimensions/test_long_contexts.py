"""Attention of which each rank has a piece: as in one process, and memory to the byte."""

import pytest
import torch
import torch.nn.functional as F
from helpers import load_solved_lab
from selection import parametrize

from coursekit.building import build
from pedagogy_lib import LaunchError, RankError, lab, launch

EXACT = 1e-12
LAYOUTS = ("contiguous_places", "zigzag")


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


def contexts():
    return lab("long_contexts")


@pytest.mark.parametrize("layout", LAYOUTS)
@parametrize(
    "way, n",
    [("ring", 3), ("by heads", 2), ("all keys", 3),
     ("ring", 1), ("ring", 4), ("by heads", 4), ("ring", 8), ("all keys", 8)],
    quick=3,
)  # fmt: skip
def test_training_equals_one_process(way, n, layout):
    labs = contexts()
    text = labs.standard_library(20_000)
    run = launch(labs.compare_with_one_process, way, getattr(labs, layout), text, world_size=n,
                 device="cpu")  # fmt: skip
    for ours, alone, gap in run.values:
        assert gap < EXACT
        assert ours == pytest.approx(alone, rel=EXACT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_in_one_process_is_that_of_pytorch(layout):
    run = launch(ring_beside_pytorch, contexts(), layout, world_size=1, device="cpu")
    assert run.values[0] < EXACT


def ring_beside_pytorch(labs, layout):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 24, 4, dtype=torch.float64) for _ in range(3))
    out, _ = labs.ring_attention(q, k, v, getattr(labs, layout)(24, 1))
    return (out - F.scaled_dot_product_attention(q, k, v, is_causal=True)).abs().max().item()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("context", "n"), [(512, 1), (512, 2), (1024, 4), (768, 3)])
def test_memory_of_a_ring_is_the_formulas(context, n, backward):
    labs = contexts()
    run = launch(labs.attention_alone, "ring", labs.contiguous_places, context, 4, 16, backward,
                 world_size=n, device="cpu")  # fmt: skip
    wanted = [labs.bytes_of_ring(context, n, rank, 4, 16)[backward] for rank in range(n)]
    assert [of_rank["total"] for of_rank in run["attention"].peak_bytes] == wanted


@pytest.mark.parametrize(
    ("way", "tensors"),
    [("ring", 2 * 3 + 4 * 3 + 2), ("by heads", 8 * 3 / 4), ("all keys", 2 * 3 + 4 * 3)],
)
def test_bytes_of_each_way(way, tensors):
    """Of four ranks, in sizes of one rank's queries; Gloo reduces all keys by an all-reduce."""
    labs = contexts()
    run = launch(
        labs.attention_alone, way, labs.contiguous_places, 2048, world_size=4, device="cpu"
    )
    tensor = 2048 // 4 * 4 * 16 * 4
    for sent in run["attention"].sent_bytes:
        assert sent == pytest.approx(tensors * tensor, rel=0.01)


def test_a_zigzag_gives_all_the_same_to_compute():
    pairs = [int((places + 1).sum()) for places in contexts().zigzag(48, 4)]
    assert len(set(pairs)) == 1
    assert sum(pairs) == 48 * 49 // 2


def test_heads_have_to_be_shared_out_evenly():
    labs = contexts()
    with pytest.raises(RankError, match="4 heads for 3 ranks"):
        launch(
            labs.attention_alone, "by heads", labs.contiguous_places, 12, world_size=3, device="cpu"
        )


def test_a_picture_of_who_has_what():
    draw_context_splits = load_solved_lab("context_splits").draw_context_splits
    alt = draw_context_splits(2).alt
    assert "tensor parallel: between the two every rank has everything" in alt
    assert "by heads: between the two each rank has some places, in attention each rank has" in alt
    for nonsense in (1, 100, "two"):
        with pytest.raises(LaunchError, match="draw_context_splits"):
            draw_context_splits(nonsense)
