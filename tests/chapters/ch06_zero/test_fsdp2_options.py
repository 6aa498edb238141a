"""FSDP2 under autocast, with micro-batches, on other meshes, and compiled."""

import pytest
import torch
import torch.nn.functional as F
from exercise_names import EX
from helpers import load_solved_lab
from needs import mark, without_compiler
from selection import parametrize

from coursekit.check_runner import find_exercise
from pedagogy_lib import RankError, close, launch, measure

OPTIONS, TRAIN, RECIPE, MODELS, COMPILED = map(load_solved_lab, (
    "fsdp2_options", "train_fsdp2", "fsdp2_recipe", "language_model", "compiled_fsdp2",
))  # fmt: skip
TEXT = MODELS.standard_library(5_000)

# ---- Autocast and the policy ---------------------------------------------------------------------

DTYPES = {None: None, 2: torch.bfloat16, 4: torch.float32}
SIZES = {"bf16": 2, "fp32": 4}


def precision_of(param, reduce, output, autocast):
    names = ("param_dtype", "reduce_dtype", "output_dtype")
    policy = {name: DTYPES[size] for name, size in zip(names, (param, reduce, output)) if size}
    return policy, autocast


@pytest.mark.deep
def test_the_rule_about_bytes_is_fsdp2s_for_every_policy():
    truth = find_exercise(EX.bytes_per_number).truth
    calls = [(param, reduce, output, autocast) for param in DTYPES for reduce in DTYPES
             for output in DTYPES for autocast in (False, True)]  # fmt: skip
    precisions = {str(call): precision_of(*call) for call in calls}
    run = launch(OPTIONS.step_in_each, precisions, world_size=2, device="cpu")
    for call in calls:
        dtypes, _ = run.values[0][str(call)]
        gathered, reduced = OPTIONS.bytes_travelling(run, str(call))
        found = [SIZES[dtypes[name]] for name in ("product", "output", "loss")]
        assert [gathered, *found, reduced] == list(truth(*call)), call
        assert SIZES[dtypes["weights"]] == gathered


def product_of_float32(cast, autocast):
    layer = OPTIONS.fully_shard(torch.nn.Linear(4, 4), mp_policy=OPTIONS.MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, cast_forward_inputs=cast))  # fmt: skip
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        return str(layer(torch.ones(2, 4)).dtype)


def test_an_input_that_is_not_cast_meets_other_weights_unless_autocast_casts_both():
    for cast, autocast in ((True, False), (True, True), (False, True)):
        values = launch(product_of_float32, cast, autocast, world_size=2, device="cpu").values
        assert values == ["torch.bfloat16"] * 2
    with pytest.raises(RankError, match="same dtype"):
        launch(product_of_float32, False, False, world_size=2, device="cpu")


# ---- Micro-batches, meshes, and the program ------------------------------------------------------


def gradients_of_one_process(n, count):
    torch.manual_seed(0)
    model = TRAIN.make_model(TRAIN.options_of(["--width", "64"])).double()
    for number in range(count):
        inputs, targets = MODELS.draw_batch(TEXT, 2 * n, number)
        (MODELS.mean_loss(model(inputs), targets) / count).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@parametrize("n, count", [(3, 2), (4, 3)], quick=1)
def test_each_way_to_accumulate_gives_the_gradients_of_one_process(n, count):
    run = launch(OPTIONS.accumulate_each, TEXT, count, world_size=n, device="cpu")
    wanted = launch(gradients_of_one_process, n, count, world_size=1, device="cpu").values[0]
    for way, gradients in run.values[n - 1].items():
        assert close(gradients, wanted), way
    reduced = [OPTIONS.calls_named("reduce_scatter", run, way) for way in OPTIONS.ACCUMULATING]
    assert reduced == [4 * count, 4, 4]
    held = [OPTIONS.models_held("gradients", run, way) for way in OPTIONS.ACCUMULATING]
    assert held[0] < 0.9 and held[1:] == [1, 1]


def gradients_after_a_failed_step(policy):
    """Return a step's gradients, relative to their value, after one whose second batch failed."""
    torch.manual_seed(0)
    model = OPTIONS.shard_with(OPTIONS.Classifier(), policy)
    tokens, targets = torch.arange(8), torch.arange(8)

    def backward(part=1):
        (F.cross_entropy(model(tokens).float(), targets) * part).backward()
        return OPTIONS.all_gradients(model)

    wanted = backward()
    model.zero_grad()
    model.set_requires_gradient_sync(False)
    (F.cross_entropy(model(tokens).float(), targets) / 3).backward()
    model.set_requires_gradient_sync(True)  # as a `finally` would, when the second batch raises
    model.zero_grad()
    return ((backward() @ wanted) / (wanted @ wanted)).item()


@pytest.mark.parametrize("policy", ["float32", "policy"])
def test_after_a_failed_micro_batch_the_next_step_adds_to_what_it_left(policy):
    values = launch(gradients_after_a_failed_step, OPTIONS.PRECISIONS[policy][0], world_size=2,
                    device="cpu").values  # fmt: skip
    assert values == pytest.approx([4 / 3] * 2, rel=1e-2)


def test_gradients_are_added_up_in_bfloat16_unless_a_reduce_dtype_is_given():
    assert launch(OPTIONS.add_up_ones, world_size=2, device="cpu").values == [
        {"no reduce_dtype": 0.5, "float32": 1.0}
    ] * 2  # fmt: skip


def test_each_mesh_gives_the_gradients_of_one_process():
    run = launch(OPTIONS.step_on_each_mesh, TEXT, world_size=4, device="cpu")
    wanted = launch(gradients_of_one_process, 4, 1, world_size=1, device="cpu").values[0]
    for name, (gradients, _) in run.values[3].items():
        assert close(gradients, wanted), name
    kept = [OPTIONS.models_held("parameters", run, f"{name}: between") for name in OPTIONS.MESHES]
    assert kept[0] < kept[1] < kept[2]
    assert OPTIONS.models_sent(run, "HSDP, 2 replicas").keys() == {"shard", "replicate"}


@parametrize("n, more", [
    (2, ["--micro-batches", "3"]), (4, ["--replicas", "2"]),
    (4, ["--replicas", "2", "--micro-batches", "3", "--recompute"]), (2, ["--replicas", "2"]),
], quick=2)  # fmt: skip
def test_the_program_accumulates_and_replicates_as_one_process(n, more):
    words = ["--precision", "float64", "--layers", "1", "--steps", "3"]
    losses, weights = launch(RECIPE.run_training, TEXT, [*words, *more], world_size=n,
                             device="cpu").values[0]  # fmt: skip
    wanted = launch(RECIPE.train_one_process, TEXT, words, world_size=1, device="cpu").values[0]
    assert len(losses) == 3 and RECIPE.largest_gap(weights, wanted) < 1e-10


def measured_step(words):
    training = TRAIN.Training(TEXT, TRAIN.options_of(["--layers", "1", *words]))
    with measure("step"):
        training.step()
    return training.mesh.shape


def test_the_program_reduces_once_and_across_replicas():
    for n, words, shape in ((2, ["--micro-batches", "3"], (2,)), (4, ["--replicas", "2"], (2, 2))):
        run = launch(measured_step, words, world_size=n, device="cpu")
        reduced = [call for call in run["step"].calls[0] if call.name == "reduce_scatter"]
        assert run.values[0] == shape and len(reduced) == 2  # of a block, and of the root
        assert len({call.group for call in run["step"].calls[0]} - {""}) >= len(shape)


@pytest.mark.parametrize("words", [["--micro-batches", "5"], ["--replicas", "3"]])
def test_the_program_refuses_what_does_not_divide(words):
    with pytest.raises(
        RankError, match=r"--batch 12 cannot be shared|--replicas 3 does not divide"
    ):
        launch(TRAIN.need_whole_parts, TRAIN.options_of(words), world_size=2, device="cpu")


# ---- Compiled blocks -----------------------------------------------------------------------------


@pytest.mark.deep
def test_one_graph_is_compiled_unless_units_are_inside_of_a_checkpoint():
    orders = launch(COMPILED.try_orders, world_size=2, device="cpu").values[1]
    exact = orders.pop(None)[2]
    found = {order: (graphs, recomputes) for order, (graphs, recomputes, _) in orders.items()}
    assert list(found.values()) == [
        (1, True), (1, False), (1, False), (1, True), (0, False)
    ]  # fmt: skip
    assert all(close(gradients, exact) for _, _, gradients in orders.values())


def one_process_of(n):
    torch.manual_seed(0)
    model, ranks = COMPILED.Classifier(COMPILED.WIDTH, layers=3).double(), []
    for rank in range(n):
        chance = torch.Generator().manual_seed(100 * rank)
        ranks.append([torch.randint(high, (32,), generator=chance) for high in (COMPILED.WIDTH, 8)])
    tokens, targets = map(torch.cat, zip(*ranks))
    F.cross_entropy(model(tokens), targets).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.deep
@pytest.mark.parametrize("n", [1, 3])
def test_compiled_and_recomputed_units_have_the_gradients_of_one_process(n):
    orders = launch(COMPILED.try_orders, world_size=n, device="cpu").values[0]
    wanted = launch(one_process_of, n, world_size=1, device="cpu").values[0]
    assert all(close(gradients, wanted) for _, _, gradients in orders.values())


@pytest.mark.parametrize(("name", "value"), [("CXX", "/nonexistent/g++"), ("PATH", "")])
def test_a_computer_without_a_compiler_gets_one_sentence(monkeypatch, name, value):
    """Inductor does not look for another compiler than the one in CXX."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv(name, value)
    sentence = COMPILED.why_no_compiler()
    assert sentence.startswith("This computer has no C++ compiler") and "\n" not in sentence


@pytest.mark.deep
def test_the_graphs_of_the_orders_need_no_compiler():
    found = launch(without_compiler, COMPILED.try_orders, world_size=2, device="cpu").values[0]
    assert found["recompute, compile, shard"][0] == 1


@pytest.mark.deep
@mark("a C++ compiler")
def test_inductor_trains_as_without_it():
    (_, plain), (seconds, compiled) = (
        launch(COMPILED.train, how, world_size=2, device="cpu", timeout=240).values[0]
        for how in (False, True)
    )
    assert ((plain - compiled).norm() / plain.norm()).item() < 1e-5
    assert seconds[0] > max(seconds[1:])
