"""Meshes, and training on them: every combination equals one process, and sends what it should."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from selection import parametrize

from coursekit.building import build
from pedagogy_lib import LaunchError, RankError, draw_groups, lab, launch

EXACT = 1e-12
SMALL = parametrize(
    "lengths", [(2, 1, 2), (1, 2, 2), (2, 2, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)], quick=2, ids=str
)
LARGE = parametrize(
    "lengths", [(2, 2, 2), (4, 1, 2), (1, 4, 2), (4, 2, 1), (2, 4, 1)], quick=1, ids=str
)


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


def sizes_of(lengths):
    return dict(zip(("dp", "pp", "tp"), lengths))


def world_of(sizes):
    return torch.Size(sizes.values()).numel()


def text():
    return lab("language_model").standard_library(20_000)


def train(lab_name, sizes, *arguments):
    run = launch(
        lab(lab_name).compare_with_one_process,
        *arguments,
        sizes,
        text(),
        world_size=world_of(sizes),
        device="cpu",
    )
    return run.values


def need_equal(values):
    for ours, alone, gap in values:
        assert gap < EXACT
        assert ours == pytest.approx(alone, rel=EXACT)


@SMALL
def test_two_axes_equal_one_process(lengths):
    need_equal(train("three_dimensions", sizes_of(lengths)))


@pytest.mark.slow
@LARGE
def test_three_axes_equal_one_process(lengths):
    need_equal(train("three_dimensions", sizes_of(lengths)))


def test_the_order_of_the_axes_does_not_matter():
    need_equal(train("three_dimensions", {"tp": 2, "dp": 1, "pp": 2}))


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("whose", ["by hand", "PyTorch's"])
@pytest.mark.parametrize("lengths", [(2, 1, 2), (1, 2, 2), (2, 2, 2)], ids=str)
def test_the_engines_equal_one_process(whose, lengths):
    need_equal(train("three_engines", sizes_of(lengths), whose))


@parametrize(
    "sizes",
    [
        {"dp": 2, "tp": 2},
        {"replicate": 2, "shard": 2},
        {"dp": 1, "tp": 2},
        {"replicate": 1, "shard": 2},
        {"replicate": 2, "shard": 1},
        {"replicate": 2, "shard": 3},
    ],
    quick=2,
    ids=lambda sizes: " ".join(f"{axis} {size}" for axis, size in sizes.items()),
)
def test_sharding_as_an_axis_equals_one_process(sizes):
    samples = 12 if 3 in sizes.values() else 8

    def compare_samples(sharded, sizes, text):
        return sharded.compare_with_one_process(sizes, text, samples=samples)

    sharded = lab("sharded_dimensions")
    run = launch(compare_samples, sharded, sizes, text(), world_size=world_of(sizes), device="cpu")
    assert max(run.values) < EXACT


def clip_by_hand(gradient, limit):
    three = lab("three_dimensions")
    mesh = three.Mesh({"dp": 1, "pp": 2, "tp": 1}, three.JOINT)
    p = SimpleNamespace(grad=gradient)
    engine = SimpleNamespace(parameters=[p], tied=[], longest=limit, mesh=mesh)
    three.ThreeDimensions.clip(engine)


def clip_shards(gradient, limit):
    sharded, unit = lab("sharded_dimensions"), torch.nn.Module()
    unit.shard = SimpleNamespace(grad=gradient)
    mesh = sharded.Mesh({"dp": 2, "tp": 1}, [("dp", "tp")])
    engine = SimpleNamespace(weights={unit: torch.ones(2)}, longest=limit, mesh=mesh)
    sharded.ZeroAndTensor.clip(engine)


def clip_tensors_of_pytorch(gradient, limit):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("pp", "dp"))
    p = SimpleNamespace(grad=DTensor.from_local(gradient, mesh["dp"], [Shard(0)]))
    engine = SimpleNamespace(parameters=[p], longest=limit, mesh=mesh)
    lab("three_engines").TorchThreeDimensions.clip(engine)


def clip_float16(clip, limit, broken=0.0):
    """Clip gradients of 300 and 400 in float16, one on each rank; return the rank's afterwards."""
    rank = dist.get_rank()
    gradient = torch.tensor([(300.0, 400.0)[rank], broken if rank else 0.0]).half()
    try:
        with torch.no_grad():
            clip(gradient, limit)
    except RuntimeError as error:
        return [*gradient.tolist(), str(error)]
    return gradient.tolist()


CLIPS = [clip_by_hand, clip_shards, clip_tensors_of_pytorch]


@pytest.mark.parametrize("clip", CLIPS)
def test_float16_gradients_are_clipped_by_their_true_norm(clip):
    for limit, wanted in ((1000, [[300, 0], [400, 0]]), (100, [[60, 0], [80, 0]])):
        assert launch(clip_float16, clip, limit, world_size=2, device="cpu").values == wanted


@pytest.mark.parametrize("clip", CLIPS)
def test_a_norm_that_is_not_finite_ends_the_step_on_all_ranks_before_anything_changes(clip):
    one, other = launch(clip_float16, clip, 100, float("inf"), world_size=2, device="cpu").values
    assert one[:2] == [300, 0] and other[0] == 400
    assert one[2] == other[2] and "norm of all gradients is inf" in one[2]


def test_each_axis_sends_what_its_formula_says():
    """A step of 2 × 2 × 2, in float32: 4 micro-batches for each of two copies, two stages."""
    width, context, blocks, samples, microbatches = 128, 64, 4, 32, 4
    three = lab("three_dimensions")

    def one_step(three, text):
        sizes = {"dp": 2, "pp": 2, "tp": 2}
        of_model = {"width": width, "context": context, "layers": blocks}
        return three.one_step(sizes, text, microbatches, samples, tied=False, **of_model)

    run = launch(one_step, three, text(), world_size=8, device="cpu")
    sent = {axis: sum(map(sum, run["step"].traffic(axis))) for axis in ("dp", "pp", "tp")}
    activations = 4 * width * context * samples / 2  # of one copy, all its micro-batches
    # Each rank sends an all-reduce of 2 ranks: its tensor once. Four for each block; one behind the
    # embedding, one before the output.
    of_tensor = 2 * 2 * (4 * blocks + 2) * activations
    assert sent["tp"] == pytest.approx(of_tensor, rel=0.01)
    assert sent["pp"] == pytest.approx(2 * 2 * 2 * activations, rel=0.01)  # there and back
    assert sent["dp"] == pytest.approx(sum(run.values), rel=0.01)


def test_a_world_of_another_size_is_refused_on_all_ranks():
    def make(meshes):
        meshes.Mesh({"dp": 2, "tp": 3})

    with pytest.raises(RankError, match="dp 2 × tp 3 makes 6 ranks, and the world has 4"):
        launch(make, lab("meshes"), world_size=4, device="cpu")


def test_groups_of_several_axes_and_of_none():
    def look(meshes):
        mesh = meshes.Mesh({"dp": 2, "pp": 2, "tp": 1}, joint=[("dp", "pp")])
        few = meshes.my_group([[0, 2]], "few")
        together = dist.get_process_group_ranks(mesh["dp", "pp"])
        return together, mesh["tp"].size(), few is None, mesh["dp"].group_desc

    values = launch(look, lab("meshes"), world_size=4, device="cpu").values
    assert values == [([0, 1, 2, 3], 1, rank % 2 == 1, "dp") for rank in range(4)]


def test_a_batch_that_cannot_be_shared_out_is_refused():
    def take(three):
        mesh = three.Mesh({"dp": 2, "pp": 1, "tp": 1})
        three.share_of_copy(torch.zeros(3), mesh)

    with pytest.raises(RankError, match="3 samples for 2 copies of the model"):
        launch(take, lab("three_dimensions"), world_size=2, device="cpu")


def test_the_picture_of_groups_tells_them():
    along = {"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]]}
    picture = draw_groups(along, machines=2, rank=1)
    assert str(picture) == (
        "Rank 1 of 4 on 2 machines: along dp in a group with 1, 3; along tp in a group with 0, 1."
    )
    with pytest.raises(LaunchError, match="rank is a whole number from 0 to 3, not 4"):
        draw_groups(along, rank=4)
    with pytest.raises(LaunchError, match="4 ranks cannot be shared out equally among 3 machines"):
        draw_groups(along, machines=3)
    with pytest.raises(LaunchError, match="along tp, ranks 2, 3 are in no group"):
        draw_groups(along | {"tp": [[0, 1]]})


def test_dropout_masks_do_not_repeat_from_step_to_step():
    dropout, x = lab("three_dimensions").SampleDropout(0.5), torch.ones(8, 8)
    masks = set()
    for dropout.step in range(1000):
        masks.add(tuple(dropout.mask(1, 5, x).flatten().tolist()))
    assert len(masks) == 1000


def step_with_ignored_targets(make, samples, shape):
    targets = torch.zeros(samples, 32, dtype=torch.int64)
    targets[0, 3] = -100
    make(shape).step(torch.zeros_like(targets), targets)


def make_by_hand(sizes):
    three = lab("three_dimensions")
    return three.ThreeDimensions(three.whole_model(), three.Mesh(sizes, three.JOINT), 2, three.adam)


def make_sharded(sizes):
    sharded = lab("sharded_dimensions")
    mesh = sharded.Mesh(sizes, [("dp", "tp")])
    return sharded.ZeroAndTensor(sharded.whole_model(), mesh, sharded.adam)


def make_of_pytorch(sizes):
    engines = lab("three_engines")
    return engines.TorchThreeDimensions(engines.whole_model(tied=False), sizes, 1, engines.adam)


def make_experts(sizes):
    experts = lab("expert_training")
    model = experts.make_expert_transformer(2, **experts.SIZES)
    mesh = experts.Mesh({"edp": 1, "ep": 2}, experts.JOINT)
    return experts.ExpertTraining(model, mesh, experts.adam)


def make_any_plan(sizes):
    plans = lab("any_plan")
    return plans.AnyPlan(plans.whole_model(), plans.Plan(cp=2), plans.adam)


@pytest.mark.parametrize(
    "make", [make_by_hand, make_sharded, make_of_pytorch, make_experts, make_any_plan]
)
def test_ignored_targets_are_refused_where_shares_of_the_batch_count_equally(make):
    with pytest.raises(RankError, match="some targets are -100"):
        launch(step_with_ignored_targets, make, 8, {"dp": 2, "pp": 1, "tp": 1}, world_size=2,
               device="cpu")  # fmt: skip


def test_one_copy_weighs_ignored_targets_by_micro_batch():
    launch(step_with_ignored_targets, make_by_hand, 8, {"dp": 1, "pp": 2, "tp": 1}, world_size=2,
           device="cpu")  # fmt: skip


def steps_around_a_bad_one(sharded):
    """Return the losses of two steps: after none, and after one that ended with an error."""
    both, batch = [], torch.arange(8 * 32).view(8, 32) % 100
    for fails in (False, True):
        mesh = sharded.Mesh({"dp": 2, "tp": 1}, [("dp", "tp")])
        engine = sharded.ZeroAndTensor(sharded.whole_model(), mesh, sharded.adam, longest=0.5)
        if fails:
            block = engine.model.blocks[0]
            bad = block.register_forward_hook(lambda *args: args[-1] * float("inf"))
            with pytest.raises(RuntimeError, match="norm of all gradients"):
                engine.step(batch, batch)
            bad.remove()
        both.append([engine.step(batch, batch) for _ in range(2)])
    return both


def test_a_step_that_was_refused_leaves_nothing_to_the_next_one():
    values = launch(steps_around_a_bad_one, lab("sharded_dimensions"), world_size=2, device="cpu")
    for undisturbed, after in values.values:
        assert after == pytest.approx(undisturbed, rel=1e-6)


def step_with_frozen_places(make, sizes):
    engine = make(sizes)
    return engine.step(*torch.ones(2, 8, 32, dtype=torch.int64))


def make_frozen_of_pytorch(sizes):
    engines = lab("three_engines")
    model = engines.whole_model(tied=False)
    model.places.requires_grad_(False)
    return engines.TorchThreeDimensions(model, sizes, 2, engines.adam, longest=0.5)


def make_frozen_by_hand(sizes):
    three = lab("three_dimensions")
    model = three.whole_model(tied=False)
    model.places.requires_grad_(False)
    return three.ThreeDimensions(model, three.Mesh(sizes, three.JOINT), 2, three.adam, 0.5)


def make_frozen_plan(sizes):
    plans = lab("any_plan")
    model = plans.whole_model(tied=True)
    model.letters.requires_grad_(False)
    return plans.AnyPlan(model, plans.Plan(pp=2, micro_batch=4), plans.adam)


def test_frozen_parameters_of_one_stage_or_of_two_stay_out_of_norms_and_sums():
    sizes, losses = {"dp": 1, "pp": 2, "tp": 1}, []
    for make in (make_frozen_by_hand, make_frozen_of_pytorch, make_frozen_plan):
        run = launch(step_with_frozen_places, make, sizes, world_size=2, device="cpu")
        losses.append(run.values[0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[2] > 0
