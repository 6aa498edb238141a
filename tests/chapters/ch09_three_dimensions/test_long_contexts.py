"""Attention of which each rank has a piece: as in one process, and memory to the byte."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
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


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("way", ["ring", "by heads", "all keys"])
def test_16_bit_attention_errs_no_more_than_pytorchs(way, autocast):
    """Ranks add up in float32, so that only inputs and results are rounded to bfloat16."""
    run = launch(errors_in_16_bits, contexts(), way, autocast, world_size=4, device="cpu")
    for ours, pytorchs in run.values:
        assert all(a < 4 * b for a, b in zip(ours, pytorchs)), (ours, pytorchs)


def errors_in_16_bits(labs, way, autocast, context=256):
    """Return the relative errors of this rank's output and gradients, by hand and by PyTorch."""
    torch.manual_seed(0)
    exact = [3 * torch.randn(1, 4, context, 32) for _ in range(2)]
    exact = [x.bfloat16().double() for x in (*exact, *torch.randn(2, 1, 4, context, 32))]
    places = labs.zigzag(context, dist.get_world_size())
    mine = places[dist.get_rank()]

    def attend(numbers, attention, some=slice(None)):
        *tensors, slope = (x[:, :, some].clone().requires_grad_() for x in numbers)
        out = attention(*tensors)
        return [out.detach(), *torch.autograd.grad(out, tensors, slope.detach())]

    causal = partial(F.scaled_dot_product_attention, is_causal=True)
    right, rounded = attend(exact, causal), [x.bfloat16() for x in exact]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        ours = attend(rounded, lambda q, k, v: labs.WAYS[way](q, k, v, places, None), mine)
    pytorchs = [x[:, :, mine] for x in attend(rounded, causal)]
    right = [x[:, :, mine] for x in right]
    return [
        [((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, right)]
        for found in (ours, pytorchs)
    ]


def test_gathered_keys_leave_autograds_gradient_alone():
    run = launch(gradient_after_backward, contexts(), world_size=2, device="cpu")
    assert run.values == [[1.0] * 4, [1.0] * 4]


def gradient_after_backward(labs):
    """Return a gradient that another branch of the graph may still read."""
    x, slope = torch.zeros(1, 1, 2, 1, requires_grad=True), torch.ones(1, 1, 4, 1)
    torch.autograd.backward(labs.AllGather.apply(x), slope)
    return slope.flatten().tolist()


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


@pytest.mark.parametrize(("layout", "context"), [("contiguous_places", 5), ("zigzag", 6)])
def test_a_context_that_cannot_be_cut_evenly_is_refused(layout, context):
    with pytest.raises(ValueError, match=f"a context of {context} cannot be cut into"):
        getattr(contexts(), layout)(context, 2)


@pytest.mark.parametrize("lengths", [[7], [4, 1, 6], [2, 3, 1, 5]])
def test_linear_attention_equals_one_process(lengths):
    """Pieces of different lengths, and values of another size than keys."""
    linear = lab("linear_attention")
    run = launch(linear.compare_linear_attention, partial(cut_unevenly, lengths), sum(lengths),
                 (3, 5), 2, world_size=len(lengths), device="cpu")  # fmt: skip
    assert max(run.values) < EXACT


def cut_unevenly(lengths, context, _):
    return list(torch.arange(context).split(lengths))


def test_linear_attention_sends_as_much_for_any_length_and_needs_pieces_in_a_row():
    linear, labs = lab("linear_attention"), contexts()
    state = 4 * 16 * 16 * 8  # heads, sizes, float64
    for layout, context in ((labs.contiguous_places, 64), (labs.zigzag, 512)):
        run = launch(linear.compare_linear_attention, layout, context, world_size=4,
                     device="cpu")  # fmt: skip
        assert run["states"].sent_bytes == pytest.approx([3 * state] * 4, rel=0.05)
    assert max(run.values) > 0.01  # of a zigzag
