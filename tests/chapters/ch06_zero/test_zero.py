"""ZeRO by hand equals one process: weights, bytes sent and bytes kept, in all stages."""

import copy
from contextlib import nullcontext
from functools import partial

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab, need_close
from selection import parametrize
from torch.utils.checkpoint import checkpoint

from pedagogy_lib import launch, measure
from pedagogy_lib.basics.closeness import close, relative_gap, rounding
from pedagogy_lib.basics.errors import RankError

CONTEXT, STEPS = 8, 5
ADAM = partial(torch.optim.Adam, lr=1e-3)


ZERO, DISK, MODELS, DDP, MEMORY, AHEAD = map(
    load_solved_lab, ("zero", "zero_on_disk", "language_model", "simple_ddp", "memory", "prefetch")
)  # fmt: skip
PARTS, COMPOSING = map(load_solved_lab, ("resharding", "composing"))
STAGES = ("stage 1", "stage 2", "stage 3")


def make_model(layers=2):
    """A transformer of odd sizes, with tied weights, a frozen layer and an unused one."""
    torch.manual_seed(0)
    model = MODELS.Transformer(6, layers=layers, heads=2, context=CONTEXT, tied=True).double()
    model.blocks[0].mlp[0].requires_grad_(False)
    model.unused = torch.nn.Linear(3, 1).double()
    return model


def loss_of(model, batch):
    return MODELS.mean_loss(model(batch[0]), batch[1])


def weights_of(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def alone(model, batches) -> torch.Tensor:
    optimizer = ADAM([p for p in model.parameters() if p.requires_grad])
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    return weights_of(model)


def recompute_inside(model):
    for block in model.blocks:
        block.mlp.forward = partial(checkpoint, block.mlp.forward, use_reentrant=False)


def recompute_around(model):
    run = model.blocks.forward
    model.blocks.forward = partial(checkpoint, run, use_reentrant=False)


def train(stage, prepare, micro_batches):
    """By how much the weights differ from those of one process after five steps."""
    text, n = MODELS.standard_library(5_000), dist.get_world_size()
    batches = [MODELS.draw_batch(text, 2 * micro_batches * n, s, CONTEXT) for s in range(STEPS)]
    model = make_model()
    wanted = alone(copy.deepcopy(model), batches)
    if dist.get_rank():
        torch.nn.init.normal_(model.letters.weight)  # the engine begins with rank 0's
    kind = ZERO.STAGES.get(stage) or AHEAD.Prefetching
    engine = kind(model, ADAM, list(model.blocks))
    prepare(model)
    for batch in batches:
        parts = list(zip(*(x.chunk(micro_batches) for x in DDP.share_of_rank(batch))))
        for part in parts:
            (loss_of(model, part) / micro_batches).backward()
        engine.step()
        with torch.no_grad():
            loss_of(model, parts[0])  # an evaluation in between
    with ZERO.whole(engine):
        return relative_gap(weights_of(model), wanted)


WAYS = {
    "plain": (lambda model: None, 1),
    "recomputed inside of units": (recompute_inside, 1),
    "recomputed around units": (recompute_around, 1),
    "micro-batches": (lambda model: None, 3),
}


def train_in_all_ways(stage):
    return {way: train(stage, *how) for way, how in WAYS.items()}


def is_close(gaps) -> bool:
    return all(gap <= rounding(steps=STEPS) for of_rank in gaps for gap in of_rank.values())


@pytest.mark.parametrize("stage", STAGES)
@parametrize("world_size", [3, 1, 2, 4], quick=2)
def test_equals_one_process(world_size, stage):
    run = launch(train_in_all_ways, stage, world_size=world_size, device="cpu")
    assert is_close(run.values), run.values


@parametrize("world_size", [2, 4], quick=1)
def test_prefetching_equals_one_process(world_size):
    run = launch(train_in_all_ways, "prefetching", world_size=world_size, device="cpu")
    assert is_close(run.values), run.values


def read_weights_after_evaluation(depth):
    """Whether all see all weights, though an evaluation has units on their way in a thread."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    engine = AHEAD.Prefetching(model, ADAM, list(model), depth=depth)
    x, found = torch.ones(2, 64, requires_grad=True), []
    for _ in range(6):
        model(x).sum().backward()
        engine.step()
        with torch.no_grad():
            model(x)
        with ZERO.whole(engine):
            for unit in engine.units.values():
                shards = [torch.empty_like(unit.shard) for _ in range(unit.n)]
                dist.all_gather(shards, unit.shard.detach())
                found.append(torch.equal(unit.flat, torch.cat(shards)))
    return len(found), all(found)


@pytest.mark.parametrize("depth", [1, 2])
def test_weights_are_whole_after_an_evaluation_with_prefetching(depth):
    run = launch(read_weights_after_evaluation, depth, world_size=2, device="cpu")
    assert run.values == [(24, True)] * 2


class ReturnsTwo(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x), x


def unit_with_two_outputs():
    model = torch.nn.Sequential(ReturnsTwo(2, 2))
    ZERO.Zero3(model, ADAM, list(model))
    with pytest.raises(TypeError, match="ReturnsTwo returns a tuple: a module that is a unit"):
        model(torch.ones(1, 2))


def test_a_unit_of_stage_3_returns_one_tensor():
    launch(unit_with_two_outputs, world_size=1, device="cpu")


def train_differing():
    """Rank 1 goes past a layer that the others use: its gradient counts as zeros."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 3).double() for _ in range(3)]
    model = torch.nn.Sequential(*layers)
    engine = ZERO.Zero2(model, ADAM, layers)
    x = torch.arange(6.0, dtype=torch.float64).view(2, 3) + dist.get_rank()
    used = [layers[0], layers[2]] if dist.get_rank() == 1 else layers
    for layer in used:
        x = layer(x)
    x.sum().backward()
    gradients = [unit.shard.grad for unit in engine.units.values()]
    engine.step()
    return sum(g is not None for g in gradients)


def test_in_stage_2_ranks_may_differ_in_what_they_use():
    assert launch(train_differing, world_size=3, device="cpu").values == [3, 3, 3]


# ---- Recomputed: a backward runs others inside of it --------------------------------------------


class Towers(torch.nn.Module):
    """Blocks of two linear layers, between a layer at each end."""

    def __init__(self, blocks=4):
        super().__init__()
        self.first, self.last = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        self.blocks = torch.nn.Sequential(*(tower() for _ in range(blocks)))

    def forward(self, x):
        return self.last(self.blocks(self.first(x)))


def tower():
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))


def all_blocks(model):
    MEMORY.recompute_modules(model.blocks)
    return list(model.blocks)


def drop_outer_layers(model):
    """Every parameter is in a recomputed block."""
    model.first = model.last = torch.nn.Identity()
    return all_blocks(model)


def share_weight(model):
    model.blocks[2][0].weight = model.blocks[0][0].weight
    return all_blocks(model)[1::2]  # those that share nothing


def share_weight_within_unit(model):
    share_weight(model)
    return []


def use_block_twice(model):
    """The same module, recomputed, in two places."""
    model.blocks[2] = model.blocks[0]
    units = [model.blocks[i] for i in (0, 1, 3)]
    MEMORY.recompute_modules(units)
    return units


def tie_recomputed_layers(model):
    """Units with two recomputed layers, which have the same weight."""
    for block in model.blocks:
        block[2].weight = block[0].weight
        MEMORY.recompute_modules([block[0], block[2]])
    return list(model.blocks)


def recompute_halves(model):
    halves = torch.nn.Sequential(model.blocks[:2], model.blocks[2:])
    units = list(dict.fromkeys(model.blocks))
    MEMORY.recompute_modules(halves)
    model.blocks = halves
    return units


def repeat_unit(model):
    model.blocks[3] = model.blocks[0]
    return recompute_halves(model)


def repeat_next_unit(model):
    model.blocks[3] = model.blocks[1]
    return recompute_halves(model)


def use_torch_checkpoint(model):
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=True)
    return list(model.blocks)


ARRANGED = [all_blocks, drop_outer_layers, share_weight, share_weight_within_unit,
            use_block_twice, tie_recomputed_layers, recompute_halves, repeat_unit,
            repeat_next_unit, use_torch_checkpoint]  # fmt: skip
REDUCED_TWICE = {"repeat_next_unit"}  # one of the units


class ReduceCounter:
    """An engine, and how often it has reduced a unit."""

    def __init__(self, engine):
        self.engine, self.count, self.real = engine, 0, getattr(engine, "reduce", None)
        engine.reduce = self.reduce

    def reduce(self, unit):
        self.count += 1
        self.real(unit)


def train_towers(arrange, kind, micro_batches):
    """The weights after some steps; how many units there are; how many reductions a backward had"""
    torch.manual_seed(0)
    model, steps = Towers().double(), 3
    engine = kind(model, ADAM, arrange(model))
    counted, width = ReduceCounter(engine), 2 if hasattr(model.first, "weight") else 3
    for step in range(steps):
        for i in range(micro_batches):
            draw = torch.Generator().manual_seed(100 * step + 10 * i + dist.get_rank())
            x = torch.randn(4, width, generator=draw, dtype=torch.float64, requires_grad=True)
            model(x).square().mean().backward()
        engine.step()
        assert not [p for p in model.parameters() if p.grad is not None]
    with ZERO.whole(engine):
        return weights_of(model), len(engine.units), counted.count / steps / micro_batches


def train_all_towers(micro_batches):
    return {
        arrange.__name__: {
            kind.__name__: train_towers(arrange, kind, micro_batches)
            for kind in (ZERO.Zero1, ZERO.Zero2, ZERO.Zero3)
        }
        for arrange in ARRANGED
    }


@parametrize("world_size, micro_batches", [(1, 1), (2, 2), (3, 1), (4, 1)], quick=1)
def test_with_recomputation_stages_2_and_3_equal_stage_1(world_size, micro_batches):
    run = launch(train_all_towers, micro_batches, world_size=world_size, device="cpu")
    for of_rank in run.values:
        for name, found in of_rank.items():
            wanted, units, _ = found["Zero1"]
            for kind in ("Zero2", "Zero3"):
                weights, _, reduced = found[kind]
                assert close(weights, wanted, steps=3), (name, kind)
                assert reduced == units + (name in REDUCED_TWICE), (name, kind)


# ---- Small things -------------------------------------------------------------------------------


def fail_while_whole():
    model = make_model()
    engine = ZERO.Zero3(model, ADAM, list(model.blocks))
    try:
        with ZERO.whole(engine):
            raise KeyError("in the block")
    except KeyError:
        pass
    return [unit.flat.untyped_storage().nbytes() for unit in engine.units.values()]


def test_after_an_error_a_model_is_whole_no_longer():
    assert launch(fail_while_whole, world_size=2, device="cpu").values == [[0, 0, 0]] * 2


def reduce_with_learners_ring():
    """Chunks come in lists: `chunks[i] += …` also puts the result there."""

    def reduce_scatter_ring(chunks, group=None):
        for k in range(len(chunks)):
            chunks[k] += 1

    reduce = ZERO.reduce_gradients.__wrapped__  # the function below torch.no_grad
    reduce.__globals__["reduce_scatter_ring"] = reduce_scatter_ring
    layer = torch.nn.Linear(2, 1, bias=False)
    unit = ZERO.Unit(layer.parameters())
    ZERO.reduce_gradients(unit)
    return unit.shard.grad.tolist()


def test_a_unit_hands_lists_to_a_learners_ring():
    assert launch(reduce_with_learners_ring, world_size=1, device="cpu").values == [[1.0, 1.0]]


# ---- Bytes --------------------------------------------------------------------------------------


def measure_stage(stage, layers=3):
    text = MODELS.standard_library(5_000)
    torch.manual_seed(0)
    model = MODELS.Transformer(64, layers)
    engine = ZERO.STAGES[stage](model, ADAM, list(model.blocks))
    for step in range(2):
        batch = DDP.share_of_rank(MODELS.draw_batch(text, 8, step))
        with measure("step") if step else nullcontext():
            loss_of(model, batch).backward()
            with measure("kept") if step else nullcontext():
                pass
            engine.step()
    with measure("after"):
        pass
    return [unit.flat.nbytes for unit in engine.units.values()]


@pytest.fixture(scope="module")
def runs():
    return {stage: launch(measure_stage, stage, world_size=4, device="cpu") for stage in STAGES}


@pytest.mark.parametrize(("stage", "models"), list(zip(STAGES, (1.5, 1.5, 2.25))))
def test_bytes_sent(runs, stage, models):
    units = sum(runs[stage].values[0])
    for sent in runs[stage]["step"].sent_bytes:
        assert sent / units == pytest.approx(models, rel=0.01)


@pytest.mark.parametrize(("stage", "split"), list(zip(STAGES, [(), ("g",), ("g", "p")])))
def test_bytes_kept(runs, stage, split):
    units = runs[stage].values[0]
    whole, shards = sum(units), sum(units) // 4
    for kept in runs[stage]["kept"].peak_bytes:
        assert kept["parameters"] == (shards if "p" in split else whole)
        assert kept["gradients"] == (shards if "g" in split else whole)
        assert kept["optimizer_state"] == 2 * shards + 4 * len(units)  # and Adam's counters
    for after in runs[stage]["after"].peak_bytes:
        assert after["gradients"] == 0


def test_stage_2_has_the_gradients_of_no_more_than_two_units(runs):
    units = sorted(runs["stage 2"].values[0])
    for most in runs["stage 2"]["step"].peak_bytes:
        assert most["gradients"] <= sum(units) // 4 + sum(units[-2:])


def test_stage_3_has_the_parameters_of_no_more_than_two_units(runs):
    units = sorted(runs["stage 3"].values[0])
    for most in runs["stage 3"]["step"].peak_bytes:
        assert most["parameters"] <= sum(units) // 4 + sum(units[-2:])


def measure_padding(numbers):
    model = torch.nn.Linear(numbers, 1, bias=False)
    engine = ZERO.Zero3(model, ADAM)
    with measure("kept"):
        pass
    return engine.units[model].shard.numel()


def test_what_is_split_is_padded():
    run = launch(measure_padding, 10, world_size=4, device="cpu")
    assert run.values == [3] * 4
    assert [kept["parameters"] for kept in run["kept"].peak_bytes] == [12] * 4


def test_a_parameter_used_outside_of_its_unit_is_refused():
    model = make_model()
    with pytest.raises(ValueError, match="shares a parameter with Embedding"):
        ZERO.units_of(model, [model.letters])


# ---- On disk ------------------------------------------------------------------------------------


def start(stage):
    torch.manual_seed(0)
    model = make_model()
    return model, ZERO.STAGES[stage](model, ADAM, list(model.blocks))


def train_and_read_weights(model, engine, steps):
    text = MODELS.standard_library(5_000)
    for step in steps:
        loss_of(model, DDP.share_of_rank(MODELS.draw_batch(text, 12, step, CONTEXT))).backward()
        engine.step()
    with ZERO.whole(engine):
        return weights_of(model)


def begun(stage, folder):
    model, engine = start(stage)
    train_and_read_weights(model, engine, range(3))
    DISK.save(engine, folder)
    return train_and_read_weights(model, engine, range(3, 6))


def resume_training(stage, folder):
    model, engine = start(stage)
    DISK.load(engine, folder)
    return train_and_read_weights(model, engine, range(3, 6))


@parametrize("stage, then", [("stage 3", 1), ("stage 1", 3), ("stage 2", 2)], quick=1)
def test_a_checkpoint_fits_another_world_size(stage, then, tmp_path):
    wanted = launch(begun, stage, tmp_path, world_size=4, device="cpu").values[0]
    found = launch(resume_training, stage, tmp_path, world_size=then, device="cpu").values
    need_close(found, wanted, steps=6)


def save_in_groups(save, folder):
    groups = [dist.new_group([rank]) for rank in range(2)]
    model = torch.nn.Linear(4, 4)
    save(ZERO.Zero1(model, ADAM, group=groups[dist.get_rank()]), folder)


@pytest.mark.parametrize("save", [DISK.save, DISK.load, PARTS.save_parts, PARTS.load_parts])
def test_an_engine_that_shards_over_a_group_is_refused_by_files(save, tmp_path):
    with pytest.raises(RankError, match="ValueError: this engine shards over a group of the 2 r"):
        launch(save_in_groups, save, tmp_path, world_size=2, device="cpu")


def make_partly_frozen(seed):
    torch.manual_seed(seed)
    frozen, norm, head = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    frozen.requires_grad_(False)
    return torch.nn.Sequential(frozen, norm, head).double()


def outputs_of_frozen_and_running(stage, save, load, folder):
    """Return the outputs of a trained model, and of a new one that has loaded its checkpoint."""
    outputs, x = [], torch.arange(24, dtype=torch.float64).view(6, 4).sin()
    for seed in (1, 2):
        model = make_partly_frozen(seed)
        engine = ZERO.STAGES[stage](model, ADAM)
        if seed == 1:
            for _ in range(3):
                model(x).square().sum().backward()
                engine.step()
            save(engine, folder)
            dist.barrier()
        else:
            load(engine, folder)
        model.eval()
        with torch.no_grad():
            outputs.append(model(x))
    return outputs


@pytest.mark.parametrize(
    "save, load", [(DISK.save, DISK.load), (PARTS.save_parts, PARTS.load_parts)]
)
@parametrize("stage", ["stage 3", "stage 1"], quick=1)
def test_frozen_weights_and_buffers_are_in_the_checkpoint(stage, save, load, tmp_path):
    work = outputs_of_frozen_and_running, stage, save, load, tmp_path
    for wanted, found in launch(*work, world_size=2, device="cpu").values:
        assert torch.equal(wanted, found)


def outputs_after_loading(save, load, folder):
    """Return a checkpoint's outputs, and those after it is loaded in place of later weights."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    engine, x = AHEAD.Prefetching(model, ADAM, list(model), depth=2), torch.ones(2, 8)
    for number in range(4):
        if number == 1:
            with torch.no_grad():
                wanted = model(x)
            save(engine, folder)
        model(x).square().sum().backward()
        engine.step()
    with torch.no_grad():
        model(x)  # an evaluation, which gathers units ahead of time
        load(engine, folder)
        return wanted, model(x)


@pytest.mark.parametrize(
    ("save", "load"), [(DISK.save, DISK.load), (PARTS.save_parts, PARTS.load_parts)]
)
def test_what_was_gathered_ahead_is_forgotten_when_a_checkpoint_is_loaded(save, load, tmp_path):
    run = launch(outputs_after_loading, save, load, tmp_path, world_size=2, device="cpu")
    for wanted, found in run.values:
        assert close(found, wanted)


def forward_and_state_within_whole(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    wanted, x = copy.deepcopy(model), torch.ones(2, 4)
    engine = kind(model, ADAM, list(model))
    with ZERO.whole(engine), torch.no_grad():
        alone = dist.get_rank() == 0  # the others need not run it, too
        same = not alone or all(torch.equal(model(x), wanted(x)) for _ in range(2))
        state = {name: tuple(p.shape) for name, p in model.state_dict().items()}
    freed = all(not unit.flat.untyped_storage().nbytes() for unit in engine.units.values())
    with torch.no_grad():
        again = torch.equal(model(x), wanted(x))
    is_whole = state == {name: tuple(p.shape) for name, p in wanted.named_parameters()}
    return same, is_whole, freed, again


@pytest.mark.parametrize("kind", [ZERO.Zero3, AHEAD.Prefetching])
def test_within_whole_a_forward_leaves_the_model_whole(kind):
    run = launch(forward_and_state_within_whole, kind, world_size=2, device="cpu")
    assert run.values == [(True,) * 4] * 2


def test_an_optimizer_that_needs_all_parameters_is_refused_by_the_disk_in_any_wrapping(tmp_path):
    def make(parameters):
        return COMPOSING.GradientClipOptimizer(parameters, ADAM, 1.0)

    with pytest.raises(ValueError, match="put GradientClipOptimizer around DiskOffloadOptimizer"):
        DISK.DiskOffloadOptimizer([torch.nn.Parameter(torch.ones(2))], make, tmp_path)


def train_offloaded(folder):
    torch.manual_seed(0)
    model = torch.nn.Linear(300, 300, bias=False)
    copied = copy.deepcopy(model)
    on_disk = DISK.DiskOffloadOptimizer(model.parameters(), ADAM, folder)
    ordinary = ADAM(copied.parameters())
    x = torch.randn(5, 300)
    for step in range(3):
        with measure("step") if step == 2 else nullcontext():
            for trained, optimizer in ((model, on_disk), (copied, ordinary)):
                optimizer.zero_grad()
                trained(x).square().mean().backward()
                optimizer.step()
    return torch.equal(model.weight, copied.weight), model.weight.nbytes


def weights_from_one_folder(folder):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8).double()
    engine = ZERO.Zero1(
        model, partial(DISK.DiskOffloadOptimizer, make_optimizer=ADAM, folder=folder)
    )
    alone = copy.deepcopy(model)
    optimizer, x = ADAM(alone.parameters()), torch.ones(2, 8, dtype=torch.float64)
    for _ in range(3):
        for trained, step in ((model, engine.step), (alone, optimizer.step)):
            trained(x).square().sum().backward()
            step()
        optimizer.zero_grad()
    return weights_of(model), weights_of(alone)


def test_ranks_may_share_the_folder_of_offloaded_state(tmp_path):
    for found, wanted in launch(weights_from_one_folder, tmp_path, world_size=2).values:
        need_close([found], wanted, steps=3)


def test_offloading_keeps_state_in_files_and_changes_no_number(tmp_path):
    run = launch(train_offloaded, tmp_path, world_size=1, device="cpu")
    same, nbytes = run.values[0]
    assert same
    state = run["step"].peak_bytes[0]["optimizer_state"]
    assert state == 2 * nbytes + 2 * 4  # of the ordinary one alone, and both counters
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.*")) == 3 * nbytes


# ---- Under autocast -----------------------------------------------------------------------------


def step_under_autocast(stage):
    """Return the largest relative error of a weight's change, beside one process in float32."""
    torch.manual_seed(0)
    model = MODELS.Transformer(16, 2)
    alone, start = copy.deepcopy(model), copy.deepcopy(model)
    sgd = partial(torch.optim.SGD, lr=1.0)
    engine, optimizer = ZERO.STAGES[stage](model, sgd, list(model.blocks)), sgd(alone.parameters())
    batch = MODELS.draw_batch(MODELS.standard_library(5_000), 8, 0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(model, DDP.share_of_rank(batch))
    loss.backward()
    loss_of(alone, batch).backward()
    engine.step()
    optimizer.step()
    with ZERO.whole(engine):
        triples = zip(model.parameters(), alone.parameters(), start.parameters())
        return max(((p - q).norm() / (q - s).norm()).item() for p, q, s in triples)


@pytest.mark.parametrize("stage", list(ZERO.STAGES))
def test_under_autocast_gradients_are_rounded_and_nothing_else(stage):
    for error in launch(step_under_autocast, stage, world_size=2, device="cpu").values:
        assert 0.001 < error < 0.03


def converted_after(stage):
    model, _ = start(stage)
    model.float()
    model(torch.zeros(1, CONTEXT, dtype=torch.int64))


def step_with_other_memory(stage):
    model, engine = start(stage)
    torch.nn.utils.vector_to_parameters(weights_of(model).clone(), model.parameters())
    train_and_read_weights(model, engine, range(1))


@pytest.mark.parametrize("stage", ["stage 1", "stage 2"])
def test_parameters_that_have_got_other_memory_are_refused(stage):
    with pytest.raises(RankError, match="RuntimeError: parameters have got other memory since"):
        launch(step_with_other_memory, stage, world_size=2, device="cpu")


def test_a_model_that_was_converted_after_its_engine_was_made_is_refused():
    with pytest.raises(RankError, match=r"RuntimeError: parameters .* torch\.float32, but .*64"):
        launch(converted_after, "stage 3", world_size=2, device="cpu")
