"""Optimizers on shards: what equals one process, what does not, and what it costs."""

from collections import Counter

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import close, launch, relative_gap

MUON, MEASURED, PIECES, RATIOS, REMAINDERS, MODELS, MATRIX, LARGE = map(
    load_solved_lab,
    ("muon_on_shards", "muon_measured", "muon_pieces", "trust_ratios", "weight_remainders",
     "language_model", "matrix_optimizers", "large_batches"),
)  # fmt: skip
EXACT = [way for way in MUON.WAYS if way != "blockwise"]
DEEP = pytest.mark.deep
SIZES = (3, *(pytest.param(n, marks=DEEP) for n in (1, 2, 4)))
TEXT = MODELS.standard_library(20_000)

# ---- Muon on ranks --------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("way", MUON.WAYS)
def test_a_way_takes_the_step_of_one_process_and_costs_what_its_formulas_say(way, n):
    shapes = [(12 * 24, 96), (12 * 8, 96), (12 * 2, 96), (12 * 9, 40)]
    run = launch(MEASURED.try_way, way, shapes, world_size=n, device="cpu")
    gap = max(gap for gap, _ in run.values)
    assert gap < 1e-12 if way in EXACT or n == 1 else gap > 0.1
    numbers = MUON.sent_by_formula(way, shapes, n)
    headers = 2_000 * len(run[way].calls[0])
    assert 8 * numbers <= sum(run[way].sent_bytes) / n <= 8 * numbers * 1.005 + headers
    assert max(flops for _, flops in run.values) == MUON.flops_by_formula(way, shapes, n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("engine", ["ZeRO-1, flat", *(f"FSDP2, {way}" for way in MUON.WAYS)])
def test_an_engine_trains_as_one_process(engine, n):
    """On 3 ranks no matrix divides evenly, and some ranks have no row of a bias."""
    gaps = launch(MEASURED.gap_of_engine, engine, TEXT, world_size=n, device="cpu").values
    if engine.endswith("blockwise") and n > 1:
        assert min(gaps) > 0.01
    else:
        assert max(gaps) < 1e-12


def step_rows(matrix):
    """Take a blockwise step on a DTensor cut by rows; return its direction on the whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    p = torch.nn.Parameter(distribute_tensor(torch.zeros_like(matrix), mesh, [Shard(0)]))
    p.grad = distribute_tensor(matrix, mesh, [Shard(0)])
    MUON.ShardedMuon([p], 1.0, "blockwise", momentum=0.0).step()
    return -p.full_tensor().detach()


@parametrize("shape", [(9, 2), (2, 6), (7, 3)], quick=1)
def test_blockwise_on_ranks_is_what_one_process_emulates(shape):
    """On 3 ranks, rows may be uneven, and a rank may have none."""
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    emulated = PIECES.step_by_pieces(matrix, torch.arange(shape[0]).chunk(3))
    for found in launch(step_rows, matrix, world_size=3, device="cpu").values:
        assert close(found, emulated)


def refuse_replicas() -> str:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    model = fully_shard(torch.nn.Linear(4, 4, bias=False), mesh=mesh)
    try:
        MUON.ShardedMuon(model.parameters(), 0.1, "by owner")
    except ValueError as error:
        return str(error)
    return "accepted"


def test_replicas_of_shards_are_refused_in_a_sentence():
    for told in launch(refuse_replicas, world_size=4, device="cpu").values:
        assert "one mesh of one dimension" in told


def test_blockwise_is_one_step_per_rank_on_its_rows():
    shards = [torch.randn(4, 3, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)]
    for found, shard in zip(MUON.stay_blockwise(shards), shards):
        assert close(found, MATRIX.orthogonalize(shard))


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 6)])
def test_rows_of_zeros_change_nothing(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    padded = MUON.orthogonalize(MUON.pad_rows(matrix, shape[0] + 3))
    assert close(padded[: shape[0]], MUON.orthogonalize(matrix))
    assert not padded[shape[0] :].any()


@pytest.mark.parametrize("shape", [(32, 8), (8, 32), (16, 16)])
def test_muon_steps_as_pytorchs_does(shape):
    """PyTorch's rounds to bfloat16, so that steps agree to two digits."""
    chance = torch.Generator().manual_seed(2)
    start = torch.randn(shape, generator=chance)
    both = [torch.nn.Parameter(start.clone()) for _ in range(2)]
    optimizers = [MUON.Muon([both[0]], 0.1),
                  torch.optim.Muon([both[1]], lr=0.1, weight_decay=0.0)]  # fmt: skip
    for _ in range(4):
        gradient = torch.randn(shape, generator=chance)
        for p, optimizer in zip(both, optimizers):
            p.grad = gradient.clone()
            optimizer.step()
    ours, theirs = ((p - start).detach() for p in both)
    assert (ours - theirs).norm() < 0.05 * theirs.norm()


def test_pytorchs_muon_on_dtensors_communicates_in_each_round():
    run = launch(MEASURED.step_pytorchs, (64, 16), world_size=2, device="cpu")
    cut, whole = run.values[0]
    assert max(cut, whole) < 0.05
    assert sum(Counter(call.name for call in run["step"].calls[0]).values()) >= MUON.ROUNDS


@pytest.mark.parametrize("n", [2, 5])
def test_a_flat_vector_cuts_fewer_matrices_than_there_are_ranks(n):
    found = launch(MEASURED.count_flat, TEXT, world_size=n).values
    (cut,) = {cut for _, cut in found}
    assert cut < n
    assert cut or n == 2  # two ranks have a whole block each
    assert 12 <= sum(count for count, _ in found) <= 12 + (n - 1)


# ---- Which numbers are one matrix -----------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("how", PIECES.HOW)
def test_pieces_have_each_row_once(how, kv_heads):
    attention = MODELS.Transformer(16, 1, heads=4, kv_heads=kv_heads).blocks[0].attention
    rows = torch.cat(PIECES.pieces_of(attention, how))
    assert rows.sort().values.tolist() == list(range(len(attention.query_key_value.weight)))


def test_heads_are_the_finest_pieces_and_q_k_v_apart_are_those_of_split_attention():
    attention = MODELS.Transformer(16, 1, heads=4).blocks[0].attention
    count = {how: len(PIECES.pieces_of(attention, how)) for how in PIECES.HOW}
    assert count == {"fused": 1, "Q, K, V": 3, "heads": 12,
                     "blockwise on 4": 12, "blockwise on 4" + PIECES.WHOLE: 12}  # fmt: skip
    split = MATRIX.SplitLayer(attention).weights
    for weight, rows in zip(split, PIECES.pieces_of(attention, "Q, K, V")):
        assert torch.equal(weight, attention.query_key_value.weight[rows])


@pytest.mark.parametrize("n", [2, 4])
def test_a_rank_with_whole_heads_needs_no_message_if_a_head_is_a_matrix(n):
    for found in launch(PIECES.heads_on_ranks, TEXT, world_size=n).values:
        assert found["heads"] == 0
        assert found["Q, K, V"] > 0.1


def direct_columns(matrix):
    """Return this rank's columns of a direction, from its columns alone."""
    mine = matrix.chunk(dist.get_world_size(), 1)[dist.get_rank()]
    return MUON.scale_of(*mine.shape) * MUON.orthogonalize(mine)


def test_one_process_emulates_ranks_that_hold_columns():
    matrix = torch.randn(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    on_ranks = torch.cat(launch(direct_columns, matrix, world_size=2, device="cpu").values, 1)
    emulated = PIECES.step_by_pieces(matrix, torch.arange(8).chunk(2), dim=1)
    assert close(emulated, on_ranks)


@pytest.mark.parametrize("how", ["Q, K, V", "blockwise on 4" + PIECES.WHOLE])
def test_whole_matrices_are_scaled_as_muon_scales_them(how):
    """Of a matrix that is not cut, or by_whole of any, the scale is that of its shape."""
    model = MODELS.Transformer(16, 1, heads=4).double()
    optimizer = PIECES.PiecewiseMuon(model, 0.1, how)
    aims = [torch.randn(p.shape, dtype=p.dtype, generator=torch.Generator().manual_seed(k))
            for k, p in enumerate(optimizer.matrices)]  # fmt: skip
    found = optimizer.find_directions(aims)
    for p, aim, direction in zip(optimizer.matrices, aims, found):
        chosen, dim = optimizer.cuts[p]
        for piece in chosen:
            part = (slice(None), piece) if dim else piece
            scale = MUON.scale_of(*(p if optimizer.by_whole else p[part]).shape)
            assert close(direction[part], scale * MUON.orthogonalize(aim[part]))
    last = len(aims) - 1
    if how == "Q, K, V":
        assert close(found[last], MUON.Muon(optimizer.matrices, 0.1).find_directions(aims)[last])


@pytest.mark.parametrize(("gaps", "word"), [
    ([0.02, 0.03, 0.025], "higher"), ([-0.02, -0.03, -0.025], "lower"),
    ([0.011, 0.2, 0.02], "no difference seen here"),
])  # fmt: skip
def test_a_gap_counts_from_four_standard_errors(gaps, word):
    assert PIECES.describe_gaps(gaps) == word


# ---- Seven optimizers on rows ---------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
def test_which_optimizers_step_alike_on_shards(n):
    apart = MEASURED.shares_apart(launch(MEASURED.changes_on_shards, TEXT, world_size=n))
    blocks = "Adam, 8 bits in blocks"
    same = {"SGD", "Adam"} | ({blocks} if 128 * 32 // n % 256 == 0 else set())
    assert {name for name, share in apart.items() if share == 0} == same
    assert min(share for name, share in apart.items() if name not in same) > 1e-3


def step_adafactor_on_rows(weight, gradients, whole, rate=0.01):
    """Step on this rank's rows as torch.optim.Adafactor steps on the whole; return the rows.

    whole  which numbers are those of the whole matrix: "columns", "rows", "weight", "update"; this
           rank's own stand for the others
    """

    def total(x, what):
        if what in whole:
            dist.all_reduce(x)
        return x

    rank, n = dist.get_rank(), dist.get_world_size()
    w, tiny = weight.chunk(n)[rank].clone(), torch.finfo(weight.dtype).eps
    row, column = torch.zeros(len(w), 1).double(), torch.zeros(1, w.shape[1]).double()
    count = {what: len(weight) if what in whole else len(w)
             for what in ("columns", "rows", "weight", "update")}  # fmt: skip

    def rms(x, what):
        return (total(x.square().sum(), what) / (count[what] * w.shape[1])).sqrt()

    for step, gradient in enumerate(gradients, 1):
        g = gradient.chunk(n)[rank]
        row.lerp_(g.square().mean(1, keepdim=True), step**-0.8)
        squares = total(g.square().sum(0, keepdim=True), "columns") / count["columns"]
        column.lerp_(squares, step**-0.8)
        mean_of_rows = total(row.sum(), "rows") / count["rows"]
        update = g * (row @ column / mean_of_rows.clamp(min=tiny)).clamp(min=tiny**2).rsqrt()
        length = rms(w, "weight").clamp(min=1e-3) * min(rate, step**-0.5)
        w -= length / rms(update, "update").clamp(min=1.0) * update
    return w


@pytest.mark.parametrize("missing", [None, "columns", "rows", "weight", "update"])
def test_adafactor_on_rows_needs_a_sum_per_column_and_three_numbers(missing):
    chance = torch.Generator().manual_seed(0)
    weight, *gradients = torch.randn(4, 7, 5, generator=chance, dtype=torch.float64)
    weight = weight * torch.arange(1, 8)[:, None]
    gradients = [g * torch.arange(7, 0, -1)[:, None] for g in gradients]
    wanted = torch.nn.Parameter(weight.clone())
    optimizer = torch.optim.Adafactor([wanted], lr=0.01)
    for g in gradients:
        wanted.grad = g.clone()
        optimizer.step()
    whole = {"columns", "rows", "weight", "update"} - {missing}
    run = launch(step_adafactor_on_rows, weight, gradients, whole, world_size=3, device="cpu")
    gap = relative_gap(torch.cat(run.values), wanted.detach())
    assert gap < 1e-12 if missing is None else gap > 1e-6


# ---- LARS and LAMB --------------------------------------------------------------------------


def train_layers(optimizer_of, parts=lambda layers: layers, steps=4):
    weights = [torch.nn.Parameter(x) for x in parts(RATIOS.layers_of(0))]
    optimizer = optimizer_of(weights)
    for step in range(1, steps + 1):
        for w, gradient in zip(weights, parts(RATIOS.layers_of(step))):
            w.grad = gradient.view_as(w)
        optimizer.step()
    return [w.detach() for w in weights]


@pytest.mark.parametrize(("name", "theirs"), [
    ("SGD", lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9)),
    ("Adam", lambda weights: torch.optim.Adam(weights, lr=0.1)),
])  # fmt: skip
def test_without_ratios_it_is_pytorchs_optimizer(name, theirs):
    ours = train_layers(lambda weights: RATIOS.Layerwise(weights, 0.1, **RATIOS.OPTIMIZERS[name]))
    for found, wanted in zip(ours, train_layers(theirs)):
        assert close(found, wanted, steps=4)


def train_parts(name):
    """Train this rank's parts; of some layers a rank has none."""
    rank, n = dist.get_rank(), dist.get_world_size()

    def optimizer_of(weights):
        return RATIOS.Layerwise(weights, 0.1, add=dist.all_reduce, **RATIOS.OPTIMIZERS[name])

    return train_layers(optimizer_of, lambda ls: [RATIOS.part_of(x, rank, n) for x in ls])


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", RATIOS.OPTIMIZERS)
def test_on_shards_with_one_sum_it_is_one_process(name, n):
    found = launch(train_parts, name, world_size=n, device="cpu").values
    alone = train_layers(lambda weights: RATIOS.Layerwise(weights, 0.1, **RATIOS.OPTIMIZERS[name]))
    for k, wanted in enumerate(alone):
        assert close(torch.cat([of_rank[k] for of_rank in found]), wanted.flatten(), steps=4)


@pytest.mark.parametrize("name", RATIOS.OPTIMIZERS)
def test_models_in_one_tensor_are_trained_as_each_alone(name):
    options = RATIOS.OPTIMIZERS[name]
    chance = torch.Generator().manual_seed(5)
    start, slopes = (torch.randn(3, 4, 2, generator=chance, dtype=torch.float64) for _ in "ab")
    rates = torch.tensor([0.1, 0.2, 0.4]).double()
    together = torch.nn.Parameter(start.clone())
    together.grad = slopes
    optimizer = RATIOS.Layerwise([together], rates[:, None, None], dims=(1, 2), **options)
    for _ in range(3):
        optimizer.step()
    for k in range(3):
        alone = torch.nn.Parameter(start[k].clone())
        alone.grad = slopes[k]
        single = RATIOS.Layerwise([alone], rates[k].item(), **options)
        for _ in range(3):
            single.step()
        assert close(together[k].detach(), alone.detach(), steps=3)


def test_a_layer_of_zeros_moves_and_one_without_gradient_stays():
    zeros, ones = torch.zeros(3), torch.ones(3)
    ratios = RATIOS.trust_ratios([zeros, 2 * ones, 4 * ones], [ones, zeros, ones])
    assert [ratio.item() for ratio in ratios] == [1.0, 1.0, 4.0]


def norm_of_dtensor(x) -> float:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return distribute_tensor(x, mesh, [Shard(0)]).norm().full_tensor().item()


def test_the_norm_of_a_dtensor_is_that_of_the_whole():
    x = torch.arange(14.0, dtype=torch.float64).view(7, 2)
    for norm in launch(norm_of_dtensor, x, world_size=3, device="cpu").values:
        assert relative_gap(norm, x.norm()) < 1e-15


@pytest.mark.parametrize(("one", "other", "word"), [
    ([1.0, 2.0], [1.2, 2.4], "lower with each seed"),
    ([1.2, 2.4], [1.0, 2.0], "higher with each seed"),
    ([1.0, 2.0], [1.2, 2.1], "no difference that all seeds show"),
])  # fmt: skip
def test_a_loss_differs_only_if_it_does_with_each_seed(one, other, word):
    assert RATIOS.compare_losses(one, other) == word


def test_a_bias_may_step_without_a_ratio():
    def moves(by_layer):
        weights = [torch.nn.Parameter(torch.full((3,), 4.0)) for _ in "ab"]
        for w in weights:
            w.grad = torch.ones(3)
        RATIOS.Layerwise(weights, 0.1, by_layer=by_layer).step()
        return [round(4 - w[0].item(), 4) for w in weights]

    assert moves(True) == [0.4, 0.4]
    assert moves([True, False]) == [0.4, 0.1]
    assert moves(False) == [0.1, 0.1]


@pytest.mark.deep
def test_sgd_trains_as_in_part_03l():
    data = load_solved_lab("gradient_accumulation").digits()
    rates, passes = RATIOS.TRIED["SGD"], 2
    ours = RATIOS.train_at_rates("SGD", data, 512, passes)
    assert list(ours) == [(rate, schedule) for schedule in RATIOS.SCHEDULES for rate in rates]
    ways = {(rate, schedule): lambda progress, rate=rate, of=of: rate * of(progress)
            for schedule, of in RATIOS.SCHEDULES.items() for rate in rates}  # fmt: skip
    for way, results in LARGE.train(data, 512, passes, ways).items():
        losses = torch.tensor([loss for loss, _ in results])
        assert close(torch.tensor(ours[way]), losses, steps=10)


# ---- 16 bits and a remainder ----------------------------------------------------------------


def odd_numbers() -> torch.Tensor:
    chance = torch.Generator().manual_seed(3)
    scaled = [torch.randn(1_000, generator=chance) * 10.0**k for k in (-38, -20, -3, 0, 30)]
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 2.0**-126, 3.38e38, -3.38e38, 1.0, -2.0,
                            1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8)])  # fmt: skip
    return torch.cat([*scaled, special])


def test_both_halves_are_the_whole_to_the_last_bit():
    x = odd_numbers()
    weight, remainder = REMAINDERS.split_float32(x)
    assert (weight.dtype, remainder.dtype) == (torch.bfloat16, torch.int16)
    back = REMAINDERS.join_float32(weight, remainder)
    assert torch.equal(back.view(torch.int32), x.view(torch.int32))
    assert weight.nbytes + remainder.nbytes == x.nbytes


def test_the_weight_is_the_nearest_one_and_larger_from_halfway():
    x = odd_numbers()
    weight, remainder = REMAINDERS.split_float32(x)
    halfway = remainder == -(2**15)
    assert halfway.sum() >= 2
    assert torch.equal(weight[~halfway], x.bfloat16()[~halfway])
    assert (weight.float().abs() > x.abs())[halfway].all()


@pytest.mark.parametrize("make", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[:0]])
def test_a_tensor_of_any_layout_is_split(make):
    x = make(torch.randn(4, 6, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(REMAINDERS.join_float32(*REMAINDERS.split_float32(x)), x)


def test_remainders_train_as_masters_to_the_last_bit_in_fewer_bytes():
    found = {way: REMAINDERS.train(way, TEXT, 6, 5e-3, 0) for way in REMAINDERS.WAYS}
    (loss, masters, _), (same_loss, same, _), (_, others, _) = found.values()
    assert loss == same_loss
    assert torch.equal(masters, same)
    assert not torch.equal(masters, others)
    together = [round(sum(sizes.values()), 6) for _, _, sizes in found.values()]
    assert together == [14.0, 12.0, 8.0]


@pytest.mark.parametrize("make", [REMAINDERS.WithMasters, REMAINDERS.WithRemainders])
def test_a_weight_without_gradient_stays(make):
    weights = [torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16)) for _ in "ab"]
    weights[1].requires_grad_(False)
    optimizer = make(weights, lambda parameters: torch.optim.SGD(parameters, lr=0.5))
    weights[0].grad = torch.ones(3, dtype=torch.bfloat16)
    optimizer.step()
    assert [w[0].item() for w in weights] == [0.5, 1.0]


def test_an_edited_weight_with_its_old_remainder_is_another_master():
    """Half a step of bfloat16 is lost or added, and nothing tells it."""
    weights = [torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))]
    optimizer = REMAINDERS.WithRemainders(weights, lambda ps: torch.optim.SGD(ps, lr=2.0**-10))
    weights[0].grad = torch.ones(1, dtype=torch.bfloat16)
    optimizer.step()
    assert weights[0].item() == 1 and optimizer.unpack(weights[0], optimizer.kept[0]) < 1
    weights[0].data.fill_(2.0)  # as a checkpoint would
    assert optimizer.unpack(weights[0], optimizer.kept[0]).item() != 2.0
