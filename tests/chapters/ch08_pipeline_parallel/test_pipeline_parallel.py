"""A transformer in stages computes what the whole one does, in float64, after every schedule.

For each number of ranks there is one launch, in which everything is tried.
"""

import contextlib
import copy
import functools
import itertools

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch, measure, throttle
from pedagogy_lib.basics.closeness import relative_gap, rounding
from pedagogy_lib.basics.errors import RankError

PIPES, SCHEDULES, MODELS, ENGINES = map(
    load_solved_lab, ("pipeline_parallel", "schedules", "language_model", "pipeline_engines")
)
PLACED, DREAM, MEASURED = map(
    load_solved_lab, ("placed_pipelines", "pipedream", "pipelines_measured")
)
SAMPLES, CONTEXT, STEPS = 9, 8, 5
SIZES = {"width": 16, "layers": 6, "heads": 2, "context": CONTEXT}  # 8 layers with both ends
WAYS = {  # schedule, pieces of a rank, how a stage is made
    "naive": ("naive", 1, "Stage"),
    "GPipe": ("GPipe", 1, "Stage"),
    "1F1B": ("1F1B", 1, "Stage"),
    "interleaved": ("interleaved 1F1B", 2, "Stage"),
    "zero bubble": ("zero bubble", 1, "halves"),
    "GPipe, recomputing": ("GPipe", 1, "RecomputingStage"),
    "1F1B, recomputing": ("1F1B", 1, "RecomputingStage"),
}
COUNTS = (1, 2, 3, 4, 8)  # micro-batches; 9 samples make unequal ones of all but 1 and 3
FROZEN = ("letters.weight", "blocks.0.norm_1.weight", "blocks.0.mlp.0.weight",
          "blocks.5.mlp.2.bias", "output.weight")  # fmt: skip
VARIANTS = {"plain": {}, "tied": {"tied": True}, "frozen": {}, "uneven": {}}
UNEVEN = {1: [8], 2: [3, 5], 4: [1, 3, 2, 2]}


def fits(way, count, ranks, variant="plain") -> bool:
    """Interleaving takes groups of micro-batches; its stages are even here."""
    return WAYS[way][1] == 1 or (count % ranks == 0 and variant != "uneven")


def ways_for(ranks):
    for way, count in itertools.product(WAYS, COUNTS):
        if fits(way, count, ranks) and ("recomputing" not in way or count in (3, 8)):
            yield way, count, "plain"
    for way, variant in itertools.product(WAYS, [v for v in VARIANTS if v != "plain"]):
        if fits(way, 4, ranks, variant):
            yield way, 4, variant


# ---- On a rank ----------------------------------------------------------------------------------


def make_model(variant):
    torch.manual_seed(0)
    model = MODELS.Transformer(**SIZES, **VARIANTS[variant])
    for name in FROZEN if variant == "frozen" else ():
        model.get_parameter(name).requires_grad_(False)
    return model


def make_pipeline(model, way, variant="plain", **options):
    make = {
        "Stage": PIPES.Stage,
        "RecomputingStage": PIPES.RecomputingStage,
        "halves": lambda piece: PIPES.Stage(PIPES.postpone_weights(piece)),
    }[WAYS[way][2]]
    sizes = UNEVEN[dist.get_world_size()] if variant == "uneven" else None
    return PIPES.my_pipeline(model, sizes, chunks=WAYS[way][1], make=make, **options)


def actions_for(way, count):
    name, chunks, _ = WAYS[way]
    options = {"chunks": chunks} if chunks > 1 else {}
    return list(SCHEDULES.SCHEDULES[name](dist.get_rank(), dist.get_world_size(), count, **options))


class Pair:
    """A whole model, and this rank's stages of an equal one."""

    def __init__(self, way, count, variant, ends, **options):
        self.whole, self.model = make_model(variant), make_model(variant)
        self.pipeline = make_pipeline(self.model, way, variant, **options)
        self.actions, self.count = actions_for(way, count), count
        self.tied = ends if variant == "tied" and self.pipeline.rank in list_end_ranks() else None

    def mine(self):
        """(name, parameter of the whole model, parameter of this rank)."""
        mine = {id(p) for p in PIPES.parameters_of(self.pipeline)}
        pairs = zip(self.whole.named_parameters(), self.model.parameters())
        return [(name, p, q) for (name, p), q in pairs if id(q) in mine]

    def backward(self, batch) -> float:
        """Both gradients; returns the difference of the losses, on the last rank."""
        loss = MODELS.mean_loss(self.whole(batch[0]), batch[1])
        loss.backward()
        parts = (x.tensor_split(self.count) for x in batch)
        ours = self.pipeline.step(self.actions, *parts)
        if self.tied:
            PIPES.sum_tied(self.model.letters.weight, self.tied)
        is_last = self.pipeline.rank == self.pipeline.ranks - 1
        return relative_gap(ours, loss.item()) if is_last else abs(ours)

    def gap_of_gradients(self) -> float:
        gaps = [0.0]
        for name, p, q in self.mine():
            assert (p.grad is None) == (q.grad is None) == (not p.requires_grad), name
            if p.grad is not None:
                gaps.append(relative_gap(q.grad, p.grad))
        return max(gaps)


def list_end_ranks():
    n = dist.get_world_size()
    return {0, n - 1} if n > 1 else set()


def gap_of(way, count, variant, ends):
    pair = Pair(way, count, variant, ends)
    loss = pair.backward(batch_of(0))
    left = [stage.kept or stage.postponed for stage in pair.pipeline.stages]
    assert not any(left) and not pair.pipeline.under_way and not pair.pipeline.own
    kept = [stage.most_kept for stage in pair.pipeline.stages]
    return max(loss, pair.gap_of_gradients()), kept


def batch_of(step):
    return MODELS.draw_batch(TEXT, SAMPLES, step, CONTEXT)


TEXT = MODELS.standard_library(5_000)


def gap_in_training(way, variant, ends) -> float:
    """The largest difference to one process in five steps of Adam."""
    pair, gaps = Pair(way, 4, variant, ends), []
    ours = [q for _, _, q in pair.mine()]
    adams = [torch.optim.Adam(ps, lr=1e-3, eps=1e-6) for ps in (pair.whole.parameters(), ours)]
    for step in range(STEPS):
        gaps += [pair.backward(batch_of(step)), pair.gap_of_gradients()]
        for adam in adams:
            adam.step()
            adam.zero_grad()
        gaps += [relative_gap(q, p) for _, p, q in pair.mine()]
    return max(gaps)


TRAINED = [("1F1B", "tied"), ("zero bubble", "frozen"), ("interleaved", "plain")]


def step_of(way, label, speed=None, **options):
    """A step of float32 whose bytes are so many that headers do not matter."""
    torch.manual_seed(0)
    model = MODELS.Transformer(width=64, layers=6, heads=2)
    pipeline = make_pipeline(model, way, **options)
    parts = [x.tensor_split(4) for x in MODELS.draw_batch(TEXT, 32, 0)]
    dist.barrier()
    with throttle(speed) if speed else contextlib.nullcontext(), measure(label):
        pipeline.step(actions_for(way, 4), *parts)
    return sum(p.grad.double().square().sum().item() for p in PIPES.parameters_of(pipeline))


def try_all():
    ends = PIPES.ends_of()
    squares = [step_of(way, way) for way in BYTES]
    squares += [step_of("1F1B", "throttled", speed=1e9)]
    torch.set_default_dtype(torch.float64)
    cases = list(ways_for(dist.get_world_size()))
    return {
        "gaps": {case: gap_of(*case, ends) for case in cases},
        "trained": {case: gap_in_training(*case, ends) for case in TRAINED},
        "squares": squares,
    }


BYTES = ("GPipe", "1F1B", "interleaved", "zero bubble")


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, marks=pytest.mark.deep), 2, pytest.param(4, marks=pytest.mark.deep)],
)
def run(request):
    n = request.param
    return launch(try_all, world_size=n, device="cpu", seed=list(range(n)))


# ---- Numbers ------------------------------------------------------------------------------------


def test_equals_one_process(run):
    for found in run.values:
        assert {case: gap for case, (gap, _) in found["gaps"].items() if gap > rounding()} == {}


def test_training_equals_one_process(run):
    for found in run.values:
        assert max(found["trained"].values()) <= rounding(steps=STEPS), found["trained"]


def count_kept_microbatches(way, m, n, rank):
    """The most micro-batches that a rank keeps, where it has one stage."""
    return {
        "naive": 1, "GPipe": m, "1F1B": min(m, n - rank), "zero bubble": min(m, n),
    }[way.removesuffix(", recomputing")]  # fmt: skip


def test_as_many_are_kept_as_the_schedule_says(run):
    n = run.world_size
    for rank, found in enumerate(run.values):
        for (way, count, _), (_, kept) in found["gaps"].items():
            if WAYS[way][1] == 1:
                assert kept == [count_kept_microbatches(way, count, n, rank)], (way, count, rank)


# ---- Random numbers in a recomputed forward -----------------------------------------------------


def append_dropout(model):
    """A piece of the model with dropout in it."""
    return torch.nn.Sequential(model, torch.nn.Dropout(0.4))


def pieces_with_dropout():
    torch.manual_seed(0)  # the same weights on every rank
    layers = PIPES.layers_of(MODELS.Transformer(**SIZES))
    n = dist.get_world_size()
    pieces = PIPES.pieces_of(layers, PIPES.even_sizes(len(layers), n))
    return [*map(append_dropout, pieces[:-1]), pieces[-1] if n > 1 else append_dropout(pieces[-1])]


def step_with_dropout(make, name, count):
    """A step of a pipeline: this rank's gradients, its loss, and what is drawn afterwards."""
    pieces = pieces_with_dropout()
    stage = make(pieces[dist.get_rank()])
    pipeline = PIPES.Pipeline([stage], MODELS.mean_loss, SIZES["width"])
    row = list(SCHEDULES.SCHEDULES[name](pipeline.rank, pipeline.ranks, count))
    torch.manual_seed(100 + dist.get_rank())
    loss = pipeline.step(row, *(x.tensor_split(count) for x in batch_of(0)))
    return [p.grad for p in stage.piece.parameters()], loss, torch.rand(1).item()


def one_process_with_dropout(count):
    """The same masks in one process: each piece draws from a generator of its own rank."""
    pieces, parts = pieces_with_dropout(), [x.tensor_split(count) for x in batch_of(0)]
    states = []
    for rank in range(len(pieces)):
        torch.manual_seed(100 + rank)
        states.append(torch.get_rng_state())
    total = 0.0
    for x, targets in zip(*parts):
        share = len(x) / SAMPLES
        for rank, piece in enumerate(pieces):
            torch.set_rng_state(states[rank])
            x = piece(x)
            states[rank] = torch.get_rng_state()
        total = total + share * MODELS.mean_loss(x, targets)
    total.backward()
    return [p.grad for p in pieces[dist.get_rank()].parameters()], total.item()


def gaps_with_dropout():
    torch.set_default_dtype(torch.float64)
    gaps = {}
    for name, count in itertools.product(("naive", "GPipe", "1F1B"), (1, 3, 8)):
        wanted, loss = one_process_with_dropout(count)
        drawn = []
        for make in (PIPES.Stage, PIPES.RecomputingStage):
            found, ours, next_number = step_with_dropout(make, name, count)
            gap = max(relative_gap(a, b) for a, b in zip(found, wanted, strict=True))
            is_last = dist.get_rank() == dist.get_world_size() - 1
            gaps[name, count, make.__name__] = max(gap, abs(ours - loss) if is_last else 0.0)
            drawn.append(next_number)
        assert drawn[0] == drawn[1], "recomputing has moved the generator on"
    return gaps


@parametrize("world_size", [3, 1, 2], quick=1)
def test_recomputing_draws_the_same_random_numbers(world_size):
    for gaps in launch(gaps_with_dropout, world_size=world_size, device="cpu").values:
        assert {case: gap for case, gap in gaps.items() if gap > rounding()} == {}


# ---- A model in another dtype than torch's default ----------------------------------------------


def step_in_bfloat16():
    """One step of each kind of pipeline: what comes in has the dtype of the weights."""
    inputs = []
    for kind in (PIPES.Pipeline, ENGINES.EagerPipeline):
        torch.manual_seed(0)
        model = MODELS.Transformer(**SIZES).bfloat16()
        pipeline = PIPES.my_pipeline(model, kind=kind)
        pipeline.stages[0].piece.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        row = list(SCHEDULES.one_f_one_b(pipeline.rank, pipeline.ranks, 4))
        loss = pipeline.step(row, *(x.tensor_split(4) for x in batch_of(0)))
        assert loss == loss  # a number
    return {x.dtype for x in inputs}


def test_what_travels_has_the_dtype_of_the_weights():
    first, second = launch(step_in_bfloat16, world_size=2, device="cpu").values
    assert first == {torch.int64} and second == {torch.bfloat16}


def pieces_cut_at_a_linear_layer(first_width=4, dtypes=(torch.float32, torch.float32)):
    """Two stages; under autocast, the first one returns bfloat16, although its weights are not."""
    torch.manual_seed(0)
    first = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, first_width))
    second = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 5))
    return first.to(dtypes[0]), second.to(dtypes[1])


def loss_in_float32(logits, targets):
    return MODELS.mean_loss(logits.float(), targets)


def step_of_two(kind, autocast, first_width=4, dtypes=(torch.float32, torch.float32), **options):
    """Run a batch on two ranks and in one process; return how far loss and gradients are apart."""
    pieces = pieces_cut_at_a_linear_layer(first_width, dtypes)
    stages = [PIPES.Stage(pieces[dist.get_rank()])]
    more = [[[0], [1]]] * (kind.__name__ in ("PlacementPipeline", "PairedPipeline"))
    pipeline = kind(stages, loss_in_float32, 4, *more, **options)
    tokens, targets = (torch.randint(0, high, (4, 3)) for high in (7, 5))
    row = list(SCHEDULES.one_f_one_b(pipeline.rank, 2, 2))
    alone = pieces_cut_at_a_linear_layer(first_width, dtypes)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        ours = pipeline.step(row, tokens.tensor_split(2), targets.tensor_split(2))
        for x, y in zip(tokens.tensor_split(2), targets.tensor_split(2)):
            loss = loss_in_float32(alone[1](alone[0](x)), y) / 2
            loss.backward()
            ours -= loss.item() * (dist.get_rank() == 1)
    pairs = zip(pieces[dist.get_rank()].parameters(), alone[dist.get_rank()].parameters())
    return [abs(ours), *(relative_gap(p.grad, q.grad) for p, q in pairs)]


KINDS = [PIPES.Pipeline, ENGINES.EagerPipeline, DREAM.AsynchronousPipeline,
         PLACED.PlacementPipeline, PLACED.PairedPipeline]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_another_dtype_or_shape_is_refused_and_never_misread(kind):
    said = r"F0 has computed torch\.bfloat16, \(2, 3, 4\), but messages are torch\.float32, "
    with pytest.raises(RankError, match=said):
        launch(step_of_two, kind, True, world_size=2, device="cpu")
    if kind is PIPES.Pipeline:
        with pytest.raises(RankError, match=r"\(2, 3, 2\), but messages are .*, \(2, 3, 4\)"):
            launch(step_of_two, kind, False, 2, world_size=2, device="cpu")


def test_under_autocast_messages_of_its_dtype_give_the_gradients_of_one_process():
    work = functools.partial(step_of_two, dtype=torch.bfloat16)
    for gaps in launch(work, PIPES.Pipeline, True, world_size=2, device="cpu").values:
        assert max(gaps) < 1e-6


def test_ranks_whose_weights_differ_in_dtype_are_told_so_on_each_of_them():
    with pytest.raises(RankError, match=r"all 2 ranks .*bfloat16, torch\.float32 on these ranks"):
        launch(
            step_of_two, PIPES.Pipeline, False, 4, (torch.bfloat16, torch.float32),
            world_size=2, device="cpu",
        )  # fmt: skip


# ---- Weights' gradients in a second half --------------------------------------------------------


def run_in_turn(kinds):
    """Run a step of each kind of pipeline on one model; return the last one's gap to one process.

    kinds  pairs of a stage's function and a schedule; a kind that is refused returns its message
    """
    torch.set_default_dtype(torch.float64)
    whole, model = make_model("plain"), make_model("plain")
    batch, said = batch_of(0), []
    MODELS.mean_loss(whole(batch[0]), batch[1]).backward()
    for make, schedule in kinds:
        model.zero_grad()
        pipeline = PIPES.my_pipeline(model, make=getattr(PIPES, make))
        row = list(SCHEDULES.SCHEDULES[schedule](pipeline.rank, 2, 4))
        try:
            pipeline.step(row, *(part.tensor_split(4) for part in batch))
        except RuntimeError as error:
            said.append(str(error))
    mine = {id(p) for p in PIPES.parameters_of(pipeline)}
    pairs = [(p.grad, q.grad) for p, q in zip(model.parameters(), whole.parameters())
             if id(p) in mine]  # fmt: skip
    return said, all(p is not None and relative_gap(p, q) <= rounding() for p, q in pairs)


HALVES, IN_ONE = ("stage_in_halves", "zero bubble"), ("stage_in_halves", "1F1B")


@pytest.mark.parametrize("kinds", [[HALVES], [IN_ONE], [HALVES, HALVES], [HALVES, IN_ONE]])
def test_no_gradient_of_a_weight_is_lost_between_the_halves(kinds):
    for said, equal in launch(run_in_turn, kinds, world_size=2, device="cpu").values:
        assert not said and equal


def test_a_plain_stage_of_a_model_whose_weights_are_postponed_is_refused():
    kinds = [HALVES, ("Stage", "1F1B"), HALVES]  # and a new one afterwards is right again
    for said, equal in launch(run_in_turn, kinds, world_size=2, device="cpu").values:
        assert len(said) == 1 and "with stage_in_halves" in said[0] and equal


def step_with(name, made_for, without=()):
    """Run a schedule that was made for another batch, or that lacks some actions, on 4 parts."""
    pipeline = PIPES.my_pipeline(make_model("plain"))
    row = [action for action in SCHEDULES.SCHEDULES[name](pipeline.rank, pipeline.ranks, made_for)
           if (action.kind, action.microbatch) not in without]  # fmt: skip
    return pipeline.step(row, *(part.tensor_split(4) for part in batch_of(0)))


@pytest.mark.parametrize(
    ("made_for", "without", "said"),
    [
        (3, (), "3 of 4 F actions were in the schedule of rank 0: make it for 4 micro-batches"),
        (4, [("B", 2)], "3 of 4 B actions were in the schedule of rank 0"),
    ],
)
def test_a_schedule_that_leaves_a_part_of_the_batch_out_is_refused(made_for, without, said):
    with pytest.raises(RankError, match=f"RuntimeError: {said}"):
        launch(step_with, "GPipe", made_for, without, world_size=2, device="cpu")


def test_a_schedule_of_forwards_alone_evaluates():
    alone = [("B", i) for i in range(4)]
    values = launch(step_with, "GPipe", 4, alone, world_size=2, device="cpu").values
    assert values[0] == 0 < values[1]


def compare_without_gradients():
    stage = MEASURED.my_pipeline.__globals__["Stage"]
    stage.backward = lambda self, i, gradient=None: self.kept.pop(i)[0]
    return MEASURED.compare_with_one_process(["1F1B"], [3], MEASURED.SMALL | {"layers": 1})


def test_gradients_that_are_missing_do_not_equal_one_process():
    assert launch(compare_without_gradients, world_size=1).values == [{("1F1B", 3): (False, True)}]


def step_after_a_raised_one(make):
    """Return the gap of a step's gradients to one process, after a step whose backward raised."""
    torch.set_default_dtype(torch.float64)
    whole, model = make_model("plain"), make_model("plain")
    MODELS.mean_loss(whole(batch_of(0)[0]), batch_of(0)[1]).backward()
    pipeline = PIPES.my_pipeline(model, make=getattr(PIPES, make))
    row = list(SCHEDULES.SCHEDULES["zero bubble"](0, 1, 4)) if make == "stage_in_halves" else list(
        SCHEDULES.one_f_one_b(0, 1, 4))  # fmt: skip
    first = pipeline.stages[0].piece[0]
    hook = first.register_full_backward_hook(lambda *args: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        pipeline.step(row, *(part.tensor_split(4) for part in batch_of(1)))
    hook.remove()
    model.zero_grad()
    pipeline.step(row, *(part.tensor_split(4) for part in batch_of(0)))
    return max(relative_gap(p.grad, q.grad) for p, q in zip(model.parameters(), whole.parameters()))


@pytest.mark.parametrize("make", ["Stage", "stage_in_halves"])
def test_a_backward_that_raised_leaves_nothing_to_the_next_step(make):
    assert launch(step_after_a_raised_one, make, world_size=1).values[0] <= rounding()


class Tripled(torch.nn.Linear):
    def forward(self, x):
        return 3 * super().forward(x)


def test_only_layers_that_are_plain_are_split_into_halves():
    torch.manual_seed(0)
    hooked = torch.nn.Linear(3, 3)
    hooked.register_forward_hook(lambda module, inputs, y: 2 * y)
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
    for layer in (Tripled(3, 3), hooked, normed):
        alone, x = torch.nn.Sequential(copy.deepcopy(layer)), torch.ones(2, 3)
        stage = PIPES.stage_in_halves(torch.nn.Sequential(layer))
        y = stage.forward(0, x)
        stage.input_gradient(0, torch.ones(2, 3))
        stage.weight_gradients(0)
        alone(x).sum().backward()
        assert torch.equal(y, alone(x))
        for p, q in zip(stage.piece.parameters(), alone.parameters()):
            assert torch.allclose(p.grad, q.grad)


def step_in_halves_under_autocast(make):
    """Return this rank's gradients; matrix products are in bfloat16."""
    torch.manual_seed(0)
    model = MODELS.Transformer(width=16, heads=2, layers=2, context=CONTEXT)
    pipeline = PIPES.my_pipeline(model, make=getattr(PIPES, make))
    row = list(SCHEDULES.one_f_one_b(pipeline.rank, 2, 2))
    with torch.autocast("cpu", torch.bfloat16):
        pipeline.step(row, *(part.tensor_split(2) for part in batch_of(0)))
    return [p.grad for p in PIPES.parameters_of(pipeline)]


def test_under_autocast_halves_add_gradients_in_the_dtype_of_the_weights():
    run = [launch(step_in_halves_under_autocast, make, world_size=2, device="cpu").values
           for make in ("Stage", "stage_in_halves")]  # fmt: skip
    for whole, halves in zip(*run):
        for p, q in zip(whole, halves):
            assert p.dtype == q.dtype == torch.float32
            assert (p - q).norm() <= 0.02 * p.norm()


def accumulate_tied(calls):
    """Run two steps of a pipeline with a tied weight, with 1 or 2 calls of sum_tied."""
    torch.set_default_dtype(torch.float64)
    pair = Pair("1F1B", 2, "tied", PIPES.ends_of())
    for step in (0, 1):
        inputs, targets = batch_of(step)
        MODELS.mean_loss(pair.whole(inputs), targets).backward()
        pair.pipeline.step(pair.actions, inputs.tensor_split(2), targets.tensor_split(2))
        if step >= 2 - calls:
            PIPES.sum_tied(pair.model.letters.weight, pair.tied)
    return pair.gap_of_gradients()


def test_a_tied_weight_is_summed_once_after_the_last_of_several_steps():
    once, twice = (launch(accumulate_tied, calls, world_size=2, device="cpu").values
                   for calls in (1, 2))  # fmt: skip
    assert max(once) <= rounding() and min(twice) > 0.1


# ---- Targets that do not count ------------------------------------------------------------------


def step_with_ignored(kept):
    """Run 4 micro-batches of which some targets are -100; compare with one process, in float64."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    models = [MODELS.Transformer(**SIZES) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    pipeline = PIPES.my_pipeline(models[0])
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(5_000), 4, 0, CONTEXT)
    targets = targets.clone()  # without the inputs' memory
    for sample, count in enumerate(kept):
        targets[sample, count:] = -100
    row = list(SCHEDULES.one_f_one_b(pipeline.rank, 2, 4))
    loss = pipeline.step(row, inputs.split(1), targets.split(1))
    wanted = MODELS.mean_loss(models[1](inputs), targets)
    wanted.backward()
    pairs = zip(models[0].parameters(), models[1].parameters())
    gaps = [relative_gap(p.grad, q.grad) for p, q in pairs if p.grad is not None]
    return loss, wanted.item(), max(gaps)


@pytest.mark.parametrize("kept", [(8, 3, 1, 8), (0, 5, 0, 2)])
def test_micro_batches_count_by_their_targets_that_are_not_ignored(kept):
    values = launch(step_with_ignored, kept, world_size=2, device="cpu").values
    loss, wanted, _ = values[-1]
    assert loss == pytest.approx(wanted, rel=1e-12)
    assert max(gap for *_, gap in values) <= rounding()


def test_a_batch_without_any_target_is_refused():
    with pytest.raises(RankError, match=r"all 2 ranks raised ValueError: no target counts"):
        launch(step_with_ignored, (0, 0, 0, 0), world_size=2, device="cpu")


# ---- Messages and bytes -------------------------------------------------------------------------

UNIT = 32 * 64 * 64 * 4  # bytes of a batch's activations at a boundary


def neighbours(n, rank, chunks):
    """At how many boundaries a rank sends: each forward at one side, back at the other."""
    stages = range(rank, n * chunks, n)
    return sum((s < n * chunks - 1) + (s > 0) for s in stages) if n > 1 else 0


@pytest.mark.parametrize("label", [*BYTES, "throttled"])
def test_each_boundary_sends_activations_forward_and_as_many_back(run, label):
    n, chunks = run.world_size, WAYS.get(label, (None, 1))[1]
    for rank in range(n):
        count = neighbours(n, rank, chunks)
        sends = [call for call in run[label].calls[rank] if call.name.endswith("send")]
        assert [call.tensor_bytes for call in sends] == 4 * count * [UNIT / 4]
        assert run[label].sent_bytes[rank] == pytest.approx(count * UNIT, rel=0.005)
        names = {call.name for call in run[label].calls[rank]}
        assert names <= {"send", "recv"}


def test_a_slow_link_changes_no_number(run):
    for found in run.values:
        by_way = dict(zip([*BYTES, "throttled"], found["squares"]))
        assert by_way["1F1B"] == by_way["throttled"]


def step_in_both_modes():
    return [step_of("GPipe", "step", waits=waits) for waits in (False, True)]


def test_waiting_for_each_send_changes_no_number():
    for squares in launch(step_in_both_modes, world_size=2, device="cpu", timeout=4).values:
        assert squares[0] == squares[1]


# ---- PyTorch's engines --------------------------------------------------------------------------


def gap_of_engine(name, count):
    chunks = ENGINES.ENGINES[name][1]
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(MODELS.Transformer(**SIZES))
    engine = ENGINES.Engine(name, models[0], count)
    assert len(engine.pieces) == chunks
    inputs, targets = MODELS.draw_batch(TEXT, 8, 0, CONTEXT)
    wanted = MODELS.mean_loss(models[1](inputs), targets)
    wanted.backward()
    loss = engine.step(inputs, targets)
    loss_gap = abs(loss - wanted.item()) if engine.is_last else abs(loss)
    return max(loss_gap, ENGINES.difference(engine, *models))


def try_engines():
    torch.set_default_dtype(torch.float64)
    names = ENGINES.names_that_run()["PyTorch's"]
    return {(name, m): gap_of_engine(name, m) for name in names for m in (4, 8)}


def test_the_engines_give_the_gradients_of_one_process():
    for gaps in launch(try_engines, world_size=2, device="cpu", seed=[0, 1]).values:
        assert len(gaps) == 12
        assert max(gaps.values()) <= rounding(), gaps
