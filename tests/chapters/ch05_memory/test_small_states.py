"""Adam with smaller states: in float32 it is torch's; optimizers that need a whole matrix."""

import pytest
import torch
from helpers import load_solved_lab

from pedagogy_lib import close, launch

SMALL, MATRIX, MODELS = map(
    load_solved_lab, ("small_states", "matrix_optimizers", "language_model")
)


def weights(steps, make_optimizer):
    torch.manual_seed(0)
    layers = [torch.nn.Parameter(torch.randn(5, 7)), torch.nn.Parameter(torch.randn(3))]
    optimizer = make_optimizer(layers)
    for _ in range(steps):
        for p in layers:
            p.grad = torch.randn_like(p)
        optimizer.step()
    return [p.detach() for p in layers], optimizer


def test_in_float32_it_is_torchs_adam():
    ours, _ = weights(20, lambda layers: SMALL.WAYS["float32"].optimizer(layers, 1e-2))
    theirs, _ = weights(20, lambda layers: torch.optim.Adam(layers, lr=1e-2))
    assert close(ours, theirs, steps=20)


@pytest.mark.parametrize(("way", "each"), [("bfloat16 states", 4), ("8 bits, roots", 2)])
def test_bytes_of_a_state(way, each):
    _, optimizer = weights(1, lambda layers: SMALL.WAYS[way].optimizer(layers, 1e-2))
    kept = sum(x.nbytes for state in optimizer.state.values()
               for packed in (state["mean"], state["square"]) for x in packed)  # fmt: skip
    scales = 2 * 2 * 4 if way.startswith("8 bits") else 0  # two tensors of one block each
    assert kept == each * (35 + 3) + scales


def test_no_root_comes_back_as_zero():
    roots = SMALL.EightBitRoots(4)
    back = roots.unpack(*roots.pack(torch.tensor([1.0, 1e-9, 0.25, 0.0])), (4,))
    assert (back > 0).all()
    assert back[0].item() == pytest.approx(1.0)


def test_a_block_of_the_smallest_numbers_keeps_their_signs():
    """Its scale has few digits, so a number divided by it may be more than 127."""
    x, eight = torch.tensor([2e-43, -2e-43, 1e-43]), SMALL.EightBits(3)
    codes, _ = eight.pack(x)
    assert codes.tolist()[:2] == [127, -127] and codes[2] > 0


def test_small_states_are_not_loaded_in_the_dtype_of_the_weights():
    _, optimizer = weights(1, lambda layers: SMALL.WAYS["8 bits"].optimizer(layers, 1e-2))
    with pytest.raises(NotImplementedError, match="SmallAdam loads no checkpoint"):
        optimizer.load_state_dict(optimizer.state_dict())


def test_newton_and_schulz_leave_the_directions():
    torch.manual_seed(0)
    u, s, v = torch.linalg.svd(torch.randn(12, 8).double(), full_matrices=False)
    found = u.T @ MATRIX.orthogonalize(u @ torch.diag(s) @ v) @ v.T
    off_diagonal = found - torch.diag(found.diag())
    assert close(off_diagonal, torch.zeros_like(off_diagonal))
    assert ((found.diag() > 0.5) & (found.diag() < 1.5)).all()


def test_replicas_that_round_by_chance_stay_equal():
    """Ranks draw different numbers, as dropout wants it; the rounding must not."""
    text = MODELS.standard_library(5_000)
    for who in SMALL.STREAMS:
        run = launch(SMALL.train_replicas, who, text, 3, 2e-3, world_size=2, device="cpu")
        share, gap = run.values[1]
        if who == "each rank draws its own numbers":
            assert share > 0.1
            assert gap > 0
        else:
            assert share == gap == 0, who


def step_and_draw(seed):
    torch.manual_seed(seed)
    p = torch.nn.Parameter(torch.ones(1000, dtype=torch.bfloat16))
    optimizer = SMALL.WAYS["all bfloat16, stochastic"].optimizer([p], 1e-3)
    for _ in range(2):
        p.grad = torch.ones_like(p)
        optimizer.step()
    return p.detach(), torch.rand(3)


def test_rounding_draws_nothing_from_the_rank_s_own_numbers():
    (one, then), (other, otherwise) = step_and_draw(1), step_and_draw(2)
    torch.manual_seed(1)
    assert torch.equal(one, other)
    assert torch.equal(then, torch.rand(3))
    assert not torch.equal(then, otherwise)


def round_after(size, steps):
    """Return a parameter after some steps, beside another one that has this size on a rank."""
    other, p = (torch.nn.Parameter(torch.ones(n, dtype=torch.bfloat16)) for n in (size, 1000))
    optimizer = SMALL.WAYS["all bfloat16, stochastic"].optimizer([other, p], 1e-3)
    for _ in range(steps):
        other.grad, p.grad = torch.ones_like(other), torch.ones_like(p)
        optimizer.step()
    return p.detach()


def test_what_tensor_parallel_ranks_share_is_rounded_alike_beside_parts_of_any_size():
    assert torch.equal(round_after(3, 2), round_after(5, 2))


# ---- Queries, keys and values for Muon ------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_separate_matrices_compute_what_the_fused_one_does(kv_heads):
    torch.manual_seed(0)
    model = MODELS.Transformer(16, layers=2, heads=4, kv_heads=kv_heads).double()
    letters = torch.randint(128, (2, 5))
    wanted, numbers = model(letters), sum(p.numel() for p in model.parameters())
    split = MATRIX.split_attention(model)
    assert close(split(letters), wanted)
    assert sum(p.numel() for p in split.parameters()) == numbers


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="older versions of torch have none")
def test_muon_takes_no_fused_matrix():
    model = MODELS.Transformer(16, layers=1)
    with pytest.raises(ValueError, match=r"three matrices in one: split_attention\(model\)"):
        MATRIX.MuonAndAdam(model, 0.1)
    muon, _ = MATRIX.MuonAndAdam(MATRIX.split_attention(model), 0.1).both
    shapes = [tuple(p.shape) for group in muon.param_groups for p in group["params"]]
    assert shapes == [(16, 16)] * 4 + [(64, 16), (16, 64)]


@pytest.mark.parametrize(("gaps", "word"), [
    ([0.02, 0.03, 0.04], "higher"), ([-0.02, -0.03, -0.04], "lower"),
    ([0.02, 0.03, 0.005], "no difference seen here"), ([-0.5, 0.5, 0.5], "no difference seen here"),
])  # fmt: skip
def test_a_loss_is_higher_only_if_it_is_with_each_seed(gaps, word):
    assert SMALL.describe_gaps(gaps) == word


def test_a_way_is_slower_than_its_flops_only_in_most_rounds():
    rounds = [1.0, 1.2, 0.9, 1.0, 1.1]

    def way(factor, flops):
        return None, [factor * seconds for seconds in rounds], flops

    found = {"plain": way(1.0, 300), "blocks": way(1.35, 400), "policy": way(1.4, 300)}
    find = load_solved_lab("recomputation").find_slower_than_flops
    assert find(found) == ["policy"]
    found["blocks"][1][1] = 9.0  # one slow round decides nothing
    assert find(found) == ["policy"]
