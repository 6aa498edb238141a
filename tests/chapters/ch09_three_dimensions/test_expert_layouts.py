"""Experts under way, on few nodes, on folded meshes, and as rows in 8 bits: as in one process."""

import pytest
import torch
from selection import parametrize

from coursekit.building import build
from pedagogy_lib import RankError, lab, launch

EXACT = 1e-12


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


def text():
    return lab("language_model").standard_library(20_000)


# ---- Halves in turns ------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["in_turns", "one_after_another"])
@pytest.mark.parametrize(("ranks", "parts"), [(1, 2), (2, 3), (3, 2)])
def test_parts_of_a_batch_equal_the_whole_batch(ranks, parts, order):
    labs = lab("overlapped_experts")
    run = launch(labs.compare_with_one_process, text(), parts, getattr(labs, order), 5,
                 world_size=ranks, device="cpu")  # fmt: skip
    assert max(run.values) < EXACT


def test_generators_take_turns():
    labs, seen = lab("overlapped_experts"), []

    def steps(name, count):
        for number in range(count):
            seen.append(f"{name}{number}")
            yield
        return name

    assert labs.in_turns([steps("a", 2), steps("b", 3)]) == ["a", "b"]
    assert seen == ["a0", "b0", "a1", "b1", "b2"]
    seen.clear()
    assert labs.one_after_another([steps("a", 2), steps("b", 1)]) == ["a", "b"]
    assert seen == ["a0", "a1", "b0"]


def test_rows_travel_while_the_other_half_is_computed():
    """In the forward and in the backward, an exchange of each half begins before the last ends."""
    labs = lab("overlapped_experts")
    for order, most in ((labs.in_turns, 2), (labs.one_after_another, 1)):
        found = launch(count_transfers, labs, text(), order, world_size=2, device="cpu").values
        assert found == [(most, most)] * 2


def count_transfers(labs, text, order):
    """Return the most transfers that are under way at once, in the forward and in the backward."""
    import torch.distributed as dist

    kind, count = labs.AllToAll, {"running": 0, "most": 0}
    begin, end = kind.begin, kind.end

    def counted_begin(transfer, *args):
        count["running"] += 1
        count["most"] = max(count["most"], count["running"])
        return begin(transfer, *args)

    def counted_end(transfer):
        count["running"] -= 1
        return end(transfer)

    kind.begin, kind.end = counted_begin, counted_end
    model = labs.share_out(labs.make_expert_transformer(4, **labs.SIZES), dist.group.WORLD)
    batch = labs.draw_batch(text, 4, dist.get_rank(), labs.SIZES["context"])
    loss = labs.loss_of(model, *batch, 2, order)
    forward, count["most"] = count["most"], 0
    loss.backward()
    return forward, count["most"]


def test_halves_come_back_right():
    labs = lab("overlapped_experts")

    def mend(halves, there, experts, back):
        coming = [there(rows, number) for number, rows in enumerate(halves)]
        returning = [back(experts(x.wait(), number), number) for number, x in enumerate(coming)]
        return [transfer.wait() for transfer in returning]

    assert launch(labs.try_halves, mend, world_size=2, device="cpu").values == [0.0, 0.0]


# ---- The z-loss over ranks ------------------------------------------------------------------


def test_the_z_loss_of_ranks_has_the_gradient_of_all_tokens():
    counts = [3, 0, 8]
    found = launch(z_loss_of_rank, lab("experts"), counts, world_size=3, device="cpu").values
    alone = lab("experts")
    x, weight = inputs_of_z_loss(sum(counts))
    alone.router_z_loss(x @ weight).backward()
    for gradient in found:
        assert (gradient - weight.grad).abs().max() < EXACT * weight.grad.abs().max()


def inputs_of_z_loss(tokens):
    chance = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=chance, dtype=torch.float64)  # noqa: E731
    return draw(tokens, 4), draw(4, 6).requires_grad_()


def z_loss_of_rank(labs, counts):
    import torch.distributed as dist

    x, weight = inputs_of_z_loss(sum(counts))
    mine = x.split(counts)[dist.get_rank()]
    labs.router_z_loss(mine @ weight, dist.group.WORLD).backward()
    dist.all_reduce(weight.grad)
    return weight.grad / dist.get_world_size()


# ---- Few nodes ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["a row per choice", "a row per node"])
@parametrize("limit", [None, 2, 1], quick=1)
def test_experts_on_nodes_equal_one_process(kind, limit):
    work = lab("expert_nodes").compare_with_one_process
    assert max(launch(work, kind, limit, world_size=8, device="cpu").values) < EXACT


def test_bytes_between_nodes_are_those_of_the_rows():
    labs, sent = lab("expert_nodes"), {}
    for kind, gates in (("a row per choice", 0), ("a row per node", 4)):
        for limit in (None, 2):
            run = launch(labs.send_tokens, kind, limit, world_size=8, device="cpu")
            sent[kind, limit] = labs.bytes_between_nodes(run)
            wanted = sum(run.values) * 4 * (64 + 64 + gates)
            assert sent[kind, limit] == pytest.approx(wanted, rel=0.02)
    alone = sent["a row per choice", None]
    assert sent["a row per choice", 2] > 0.95 * alone  # the limit by itself saves nothing
    assert sent["a row per node", 2] < 0.6 * alone


def test_a_tokens_experts_are_on_few_nodes():
    scores = torch.randn(500, 12, generator=torch.Generator().manual_seed(0))
    for most in (1, 2, 3):
        _, experts = lab("expert_nodes").route_within_nodes(scores, 3, 3, most)
        assert max(len(set(of.tolist())) for of in experts // 4) == most
        assert all(len(set(of)) == 3 for of in experts.tolist())


# ---- Folded meshes --------------------------------------------------------------------------

FOLDS = [
    ({"dp": 2, "tp": 2}, {"edp": 1, "ep": 4, "etp": 1}),
    ({"dp": 2, "tp": 2}, {"edp": 1, "ep": 2, "etp": 2}),
    ({"dp": 1, "tp": 2}, {"edp": 2, "ep": 1, "etp": 1}),
    ({"dp": 2, "tp": 1}, {"edp": 1, "ep": 1, "etp": 2}),
    ({"dp": 1, "tp": 4}, {"edp": 2, "ep": 2, "etp": 1}),
    pytest.param({"dp": 4, "tp": 2}, {"edp": 2, "ep": 4, "etp": 1}, marks=pytest.mark.deep),
]


@pytest.mark.parametrize(("attention", "experts"), FOLDS, ids=str)
def test_two_meshes_over_the_same_ranks_equal_one_process(attention, experts):
    ranks = attention["dp"] * attention["tp"]
    work = lab("folded_experts").compare_with_one_process
    run = launch(work, attention, experts, text(), 2, 2 * ranks, world_size=ranks, device="cpu")
    for found in run.values:
        assert {"experts gradient", "router gradient", "attention weight", "loss"} <= set(found)
        assert max(gap for gap, _ in found.values()) < EXACT


def test_dividing_by_all_ranks_makes_experts_gradients_too_small():
    work = lab("folded_experts").compare_with_one_process
    run = launch(work, *FOLDS[0], text(), 1, 4, 31, True, world_size=4, device="cpu")
    assert run.values[0]["experts gradient"][1] == pytest.approx(1 / 2, rel=EXACT)
    assert run.values[0]["router gradient"][0] < EXACT


def test_experts_have_to_divide():
    work = lab("folded_experts").compare_with_one_process
    with pytest.raises(RankError, match="8 experts of 8 columns for ep 3"):
        launch(work, {"dp": 3, "tp": 1}, {"edp": 1, "ep": 3, "etp": 1}, text(), 1, 6,
               world_size=3, device="cpu")  # fmt: skip


# ---- Rows in 8 bits -------------------------------------------------------------------------


def test_rows_in_8_bits_have_the_bytes_of_the_formula_and_few_errors():
    labs = lab("narrow_dispatch")
    run = launch(labs.compare, world_size=2, device="cpu")
    for name, (there, back, error) in run.values[0].items():
        wanted = labs.predict_bytes(labs.WAYS, name, there, back, 8, 2)
        assert run[name].sent_bytes[0] == pytest.approx(wanted, rel=0.01)
        assert error == 0 if name == "float32" else 1e-4 < error < 0.05


@pytest.mark.parametrize("width", [1, 31, 128, 130])
def test_packed_rows_come_back(width):
    labs = lab("narrow_dispatch")
    rows = torch.randn(3, width, generator=torch.Generator().manual_seed(0))
    rows[1] = 0
    for name, form in labs.FORMATS.items():
        for x in (rows, rows[:0]):
            packed = form.pack(x)
            assert packed.shape == (len(x), labs.bytes_of_row(name, width))
            back = form.unpack(packed, width)
            assert back.shape == x.shape
            assert torch.allclose(back, x, rtol=2**-3, atol=1e-2)
