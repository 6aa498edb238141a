"""Experts in 16 bits, with a shared expert, a capacity, a limit to nodes, or nothing to do."""

import contextlib
from functools import partial
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from coursekit.building import build
from pedagogy_lib import RankError, lab, launch

EXACT = 1e-12
NARROW = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


def text():
    return lab("language_model").standard_library(20_000)


# ---- The router has at least 32 bits --------------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("how", ["a layer in 16 bits", "autocast", "16-bit tokens"])
def test_scores_are_computed_in_32_bits(how, dtype):
    torch.manual_seed(0)
    layer, x = lab("experts").ExpertLayer(64, 8, 2), torch.randn(256, 64)
    if how != "autocast":
        x = x.to(dtype)
    if how == "a layer in 16 bits":
        layer.to(dtype)
    with torch.autocast("cpu", dtype, enabled=how != "a layer in 16 bits"):
        layer(x)
    wanted = F.linear(x.float(), layer.router.weight.float())
    assert layer.scores.dtype == torch.float32
    assert layer.scores.equal(wanted)
    assert not layer.scores.equal(layer.scores.to(dtype).float())
    layer(x.to(layer.mlps.up.dtype)).float().sum().backward()
    assert layer.router.weight.grad.dtype == layer.router.weight.dtype


def test_scores_in_float64_stay_in_float64():
    layer, x = lab("experts").ExpertLayer(8, 4).double(), torch.randn(5, 8, dtype=torch.float64)
    layer(x)
    assert layer.scores.equal(F.linear(x, layer.router.weight))


@pytest.mark.parametrize("mode", ["bfloat16", "autocast"])
@pytest.mark.parametrize("name", ["ExpertLayer", "TwoHopLayer", "halves in turns"])
def test_scores_on_ranks_are_computed_in_32_bits(name, mode):
    labs = lab("expert_nodes"), lab("overlapped_experts"), lab("experts")
    run = launch(score_on_ranks, *labs, text(), name, mode, world_size=2, device="cpu")
    for dtype, narrow, gap in run.values:
        assert (dtype, narrow) == (torch.float32, False)
        assert gap < 0.05


def score_on_ranks(nodes, overlapped, experts, text, name, mode):
    """Return the scores' dtype, whether all are bfloat16 numbers, and the output's error."""
    import torch

    if name == "halves in turns":
        model, alone = (
            overlapped.make_expert_transformer(4, k=2, **overlapped.SIZES) for _ in range(2)
        )
        overlapped.share_out(model, torch.distributed.group.WORLD)
        x, targets = overlapped.draw_batch(text, 4, 0, overlapped.SIZES["context"])
        layer, run = (
            overlapped.expert_layers(model)[0],
            partial(overlapped.loss_of, model, x, targets, 2),
        )
        wanted = overlapped.mean_loss(alone(x), targets)
    else:
        mesh = nodes.Mesh({"node": 2, "local": 1}, nodes.AXES)
        torch.manual_seed(0)
        model = layer = getattr(nodes, name)(64, 8, 2)
        torch.manual_seed(0)
        alone = experts.ExpertLayer(64, 8, 2)
        nodes.share_out(layer, mesh["node", "local"])
        layer.mesh, x = mesh, torch.randn(50, 64)
        run, wanted = (lambda: layer(x.to(layer.mlps.experts.up.dtype))), alone(x)
    if mode == "bfloat16":
        model.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
        y = run()
    y.float().sum().backward()
    scores = layer.scores
    gap = ((y.float() - wanted).norm() / wanted.norm()).item()
    return scores.dtype, scores.equal(scores.bfloat16().float()), gap


# ---- What a layer can have besides experts --------------------------------------------------


@pytest.mark.parametrize("kind", ["a row per choice", "a row per node"])
@pytest.mark.parametrize("limit", [None, 2])
def test_a_shared_expert_on_nodes_equals_one_process(kind, limit):
    work = partial(lab("expert_nodes").compare_with_one_process, shared=True)
    run = launch(work, kind, limit, world_size=8, device="cpu")
    assert max(run.values) < EXACT


@pytest.mark.parametrize(
    ("attention", "experts"),
    [
        ({"dp": 2, "tp": 2}, {"edp": 1, "ep": 4, "etp": 1}),
        ({"dp": 1, "tp": 4}, {"edp": 2, "ep": 1, "etp": 2}),
    ],
    ids=str,
)
def test_a_shared_expert_on_two_meshes_equals_one_process(attention, experts):
    work = partial(lab("folded_experts").compare_with_one_process, shared=True)
    run = launch(work, attention, experts, text(), world_size=4, device="cpu")
    for found in run.values:
        assert {"shared expert gradient", "shared expert weight"} <= set(found)
        assert max(gap for gap, _ in found.values()) < EXACT


@pytest.mark.parametrize("order", ["in_turns", "one_after_another"])
@pytest.mark.parametrize(
    "of_model",
    [
        {"shared": True},
        {"capacity": 1.0, "k": 2},
        {"capacity": 0.5, "k": 3, "shared": True},
    ],
    ids=str,
)
def test_halves_equal_one_process_whatever_the_layer_has(order, of_model):
    """The balancing loss is in the loss, so the scores of all parts count."""
    labs = lab("overlapped_experts")
    work = partial(labs.compare_with_one_process, **of_model)
    run = launch(work, text(), 2, getattr(labs, order), 4, world_size=2, device="cpu")
    assert max(run.values) < EXACT


@pytest.mark.parametrize("limit", [None, 1])
def test_scores_and_choices_are_those_of_all_parts(limit):
    labs, nodes = lab("overlapped_experts"), lab("expert_nodes")
    run = launch(collect_choices, labs, nodes, text(), limit, world_size=2, device="cpu")
    assert run.values == [True, True]


def collect_choices(labs, nodes, text, limit):
    import torch

    torch.set_default_dtype(torch.float64)
    group = torch.distributed.group.WORLD
    model = labs.share_out(labs.make_expert_transformer(8, k=2, **labs.SIZES), group)
    alone = labs.make_expert_transformer(8, k=2, **labs.SIZES)
    if limit is not None:
        for layer in labs.expert_layers(model) + labs.expert_layers(alone):
            layer.route = nodes.limited(4, limit)
    x, targets = labs.draw_batch(text, 5, 0, labs.SIZES["context"])
    loss = labs.loss_of(model, x, targets, 3)
    wanted = labs.mean_loss(alone(x), targets)
    return (loss - wanted).abs().item() < 1e-12 and all(
        (here.scores - there.scores).abs().max() < 1e-12
        and here.experts.equal(there.experts)
        and here.fits.equal(there.fits)
        for here, there in zip(*map(labs.expert_layers, (model, alone)))
    )


def test_frozen_parts_stay_frozen_on_two_meshes():
    run = launch(train_frozen, lab("folded_experts"), text(), world_size=2, device="cpu")
    assert run.values == [[True, False, True, False]] * 2


def train_frozen(labs, text):
    model = labs.make_expert_transformer(4, **labs.SIZES)
    layers = labs.expert_layers(model)
    model.blocks[0].norm_2.weight.requires_grad_(False)
    layers[0].mlps.requires_grad_(False)
    training = labs.FoldedTraining(model, {"dp": 1, "tp": 2}, {"edp": 1, "ep": 2, "etp": 1},
                                   labs.adam)  # fmt: skip
    watched = [model.blocks[0].norm_2.weight, model.blocks[1].norm_2.weight]
    watched += [layer.mlps.remote.experts.up for layer in layers[:2]]
    before = [p.detach().clone() for p in watched]
    training.step(*labs.draw_batch(text, 4, 0, labs.SIZES["context"]))
    return [p.equal(x) for p, x in zip(watched, before)]


def test_a_part_has_to_have_a_sample():
    labs = lab("overlapped_experts")
    with pytest.raises(RankError, match="1 samples cannot be cut into 2 parts"):
        launch(labs.compare_with_one_process, text(), 2, labs.in_turns, 1, world_size=2,
               device="cpu")  # fmt: skip


def test_a_rank_with_too_few_samples_ends_the_others():
    """They would wait for its rows."""
    with pytest.raises(RankError, match="1 samples cannot be cut into 2 parts"):
        launch(run_uneven, lab("overlapped_experts"), text(), world_size=2, device="cpu")


def run_uneven(labs, text):
    import torch

    group = torch.distributed.group.WORLD
    model = labs.share_out(labs.make_expert_transformer(4, **labs.SIZES), group)
    samples = 2 - torch.distributed.get_rank()
    labs.loss_of(model, *labs.draw_batch(text, samples, 0, labs.SIZES["context"]), 2)


# ---- What is kept for the backward ----------------------------------------------------------


@pytest.mark.parametrize("width", [3, 64])
def test_adding_rows_up_keeps_their_places_only(width):
    """index_add may keep the rows, as index_copy does."""
    nodes = lab("expert_nodes")
    rows = torch.randn(5, width, requires_grad=True)
    gates = torch.eye(5)[:, :4] + torch.eye(5).roll(1, 0)[:, :4]

    def run(rows, counts):
        return rows * 1

    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        nodes.weigh_experts(run, rows, gates.requires_grad_())
    wide = [x for x in kept if x.is_floating_point() and x.shape == (8, width)]
    assert len(wide) == 1  # the experts' outputs, for the gates' gradients


def test_received_rows_are_freed_before_the_backward():
    """They are sorted by expert into a new tensor, and no backward needs them."""
    run = launch(count_kept, lab("overlapped_experts"), text(), world_size=2, device="cpu")
    assert run.values == [(16, 0)] * 2


def count_kept(labs, text):
    """Return how many tensors of rows came in a forward, and how many stay alive after it."""
    import gc
    import time

    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    kind, arrived = labs.AllToAll, []
    end = kind.end

    def watched_end(exchange):
        rows = end(exchange)
        arrived.append(StorageWeakRef(rows.untyped_storage()))
        return rows

    kind.end = watched_end
    group = torch.distributed.group.WORLD
    model = labs.share_out(labs.make_expert_transformer(4, k=2, **labs.SIZES), group)
    loss = labs.loss_of(model, *labs.draw_batch(text, 4, 0, labs.SIZES["context"]), 2)
    there = arrived[:]
    gc.collect()
    until = time.monotonic() + 2  # Gloo's thread drops the last rows a moment after wait()
    while (kept := sum(not of.expired() for of in there)) and time.monotonic() < until:
        time.sleep(0.01)
    loss.backward()
    return len(arrived), kept


# ---- Rows in 8 bits, and no rows at all -----------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("width", [1, 31, 128, 256])
def test_rows_of_16_bits_are_packed_as_well_as_those_of_32(width, dtype):
    labs = lab("narrow_dispatch")
    rows = torch.randn(5, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    for name, form in labs.FORMATS.items():
        packed = form.pack(rows)
        assert packed.shape == (5, labs.bytes_of_row(name, width))
        assert form.unpack(packed, width).equal(form.unpack(form.pack(rows.float()), width))


def test_finer_scales_are_for_outliers():
    labs = lab("narrow_dispatch")
    names = ("E4M3, a scale per row", "E4M3, a scale per 128", "MXFP8")
    without, beside = (
        [labs.error_beside_outlier(name, factor) for name in names] for factor in (1, 1e6)
    )
    assert max(without) < 1.2 * min(without)
    assert beside[0] > 1.3 * beside[1] > 2 * beside[2]


def test_a_layer_in_bfloat16_sends_rows_in_8_bits():
    run = launch(send_narrow, lab("narrow_dispatch"), world_size=2, device="cpu")
    for errors in run.values:
        assert max(errors) < 0.06


def send_narrow(labs):
    import torch

    found = []
    for formats in labs.WAYS.values():
        torch.manual_seed(0)
        layer, x = labs.ExpertLayer(256, 4, k=2, hidden=256).bfloat16(), torch.randn(64, 256)
        with torch.no_grad():
            wanted = layer(x.bfloat16()).float()
            group = torch.distributed.group.WORLD
            layer.mlps = labs.NarrowRemoteExperts(layer.mlps, group, *formats)
            y = layer(x.bfloat16())
        assert y.dtype == torch.bfloat16
        found.append(((y.float() - wanted).norm() / wanted.norm()).item())
    return found


@pytest.mark.parametrize("size", [1e-43, 1e-40, 1e-37, 1e-30])
def test_rows_of_tiny_numbers_are_packed(size):
    labs = lab("narrow_dispatch")
    rows = size * torch.linspace(-1, 1, 256).expand(3, 256)
    for name in ("E4M3, a scale per row", "E4M3, a scale per 128", "MXFP8"):
        form = labs.FORMATS[name]
        back = form.unpack(form.pack(rows), 256)
        assert back.isfinite().all()
        assert (back - rows).abs().max() <= max(2**-4 * size, torch.finfo(torch.float32).tiny)


def test_the_z_loss_of_a_group_without_tokens_is_0():
    run = launch(loss_of_nothing, lab("experts"), world_size=2, device="cpu")
    assert run.values == [(0.0, (0, 4))] * 2


def loss_of_nothing(labs):
    import torch

    scores = torch.zeros(0, 4, requires_grad=True)
    loss = labs.router_z_loss(scores, torch.distributed.group.WORLD)
    loss.backward()
    return loss.item(), tuple(scores.grad.shape)


def test_the_z_loss_of_a_group_is_summed_in_32_bits():
    """The sum over the tokens exceeds 65,504, the largest number of float16."""
    run = launch(losses_in_float16, lab("experts"), world_size=2, device="cpu")
    for alone, together, dtype in run.values:
        assert together == pytest.approx(alone, rel=2**-10)
        assert dtype == torch.float16


def losses_in_float16(labs):
    import torch

    scores = torch.full((3000, 4), 5.0, dtype=torch.float16)
    together = labs.router_z_loss(scores, torch.distributed.group.WORLD)
    return labs.router_z_loss(scores).item(), together.item(), together.dtype


@pytest.mark.parametrize("tokens", [(0, 6), (0, 0)], ids=str)
def test_the_balancing_loss_of_a_rank_without_tokens_is_0(tokens):
    run = launch(balance_of_few, lab("experts"), tokens, world_size=2, device="cpu")
    for count, (loss, finite, shape) in zip(tokens, run.values):
        assert finite and shape == (count, 4)
        assert loss == pytest.approx(float(count > 0))


def balance_of_few(labs, tokens):
    import torch

    scores = torch.zeros(tokens[torch.distributed.get_rank()], 4, requires_grad=True)
    _, experts = labs.route(scores, 2)
    loss = labs.balancing_loss(scores, experts, torch.distributed.group.WORLD)
    loss.backward()
    return loss.item(), scores.grad.isfinite().all().item(), tuple(scores.grad.shape)


def test_the_z_loss_counts_on_the_device_of_the_scores():
    """NCCL sums tensors of GPUs only."""
    run = launch(find_device, lab("experts"), world_size=1, device="cpu")
    assert run.values == ["meta"]


def find_device(labs):
    import torch

    has_no_numbers = contextlib.suppress(RuntimeError)
    with mock.patch.object(torch.distributed, "all_reduce") as watched, has_no_numbers:
        labs.router_z_loss(torch.zeros(3, 4, device="meta"), torch.distributed.group.WORLD)
    return watched.call_args.args[0].device.type
