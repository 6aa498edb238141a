"""Experts: on ranks as in one process, and what travels between these."""

import needs
import pytest
import torch
from helpers import load_solved_lab

from coursekit.building import build
from pedagogy_lib import LaunchError, RankError, lab, launch

EXACT = 1e-12
MESHES = [
    ({"edp": 1, "ep": 2}, {"n": 2}),
    ({"edp": 2, "ep": 1}, {"n": 4, "k": 2}),
    ({"edp": 2, "ep": 2}, {"n": 4, "k": 2, "capacity": 1.0, "shared": True}),
    ({"edp": 1, "ep": 4}, {"n": 8, "k": 3}),
    ({"ep": 2, "edp": 2}, {"n": 6, "capacity": 0.5}),
    ({"edp": 1, "ep": 3}, {"n": 6, "k": 2}),
    pytest.param({"edp": 2, "ep": 4}, {"n": 8, "k": 2}, marks=pytest.mark.deep),
    pytest.param({"edp": 4, "ep": 2}, {"n": 4, "k": 1}, marks=pytest.mark.deep),
]


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


def text():
    return lab("language_model").standard_library(20_000)


@pytest.mark.parametrize(("sizes", "model"), MESHES, ids=str)
def test_experts_on_ranks_equal_one_process(sizes, model):
    n = torch.Size(sizes.values()).numel()
    samples = 12 if n == 3 else 8
    work = lab("expert_training").compare_with_one_process
    run = launch(work, sizes, model, text(), 3, samples, world_size=n, device="cpu")
    for ours, alone, gap in run.values:
        assert gap < EXACT
        assert ours == pytest.approx(alone, rel=EXACT)


def test_another_average_would_not_be_equal():
    """So that the test above can fail."""
    experts = lab("expert_training")
    right = launch(experts.gradient_ratios, experts.average_gradients, {"edp": 1, "ep": 2}, text(),
                   world_size=2, device="cpu").values  # fmt: skip
    wrong = launch(experts.gradient_ratios, average_over_replicas, {"edp": 1, "ep": 2}, text(),
                   world_size=2, device="cpu").values  # fmt: skip
    for of_rank in right:
        assert of_rank == pytest.approx({"attention": 1, "router": 1, "experts": 1}, rel=EXACT)
    assert not [of_rank for of_rank in wrong if of_rank["experts"] != pytest.approx(2, rel=EXACT)]


def average_over_replicas(parameters, mesh):
    import torch.distributed as dist

    for p in parameters:
        group = mesh["edp"] if hasattr(p, "is_of_expert") else mesh["edp", "ep"]
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_bytes_and_tokens_of_an_unequal_load(share):
    tokens, row, n = 480, 64 * 4, 4
    run = launch(lab("expert_training").unequal_load, share, 1e12, world_size=n, device="cpu")
    favoured = round(share * tokens)
    assert run.values[0] == n * favoured
    assert sum(run.values) == n * tokens
    wanted = (tokens - favoured) * row + (n - 1) * favoured * row + 8 * (n - 1)
    assert run["layer"].sent_bytes[0] == pytest.approx(wanted, rel=0.01)


def test_experts_and_samples_have_to_be_shared_out_evenly():
    work = lab("expert_training").compare_with_one_process
    with pytest.raises(RankError, match="7 samples for 2 ranks"):
        launch(work, {"edp": 1, "ep": 2}, {"n": 2}, text(), 1, 7, world_size=2, device="cpu")
    with pytest.raises(RankError, match="3 experts for 2 ranks"):
        launch(work, {"edp": 1, "ep": 2}, {"n": 3}, text(), world_size=2, device="cpu")


DEEPSPEED = pytest.param("DeepSpeed's", marks=needs.mark("deepspeed"))


@pytest.mark.parametrize("name", ["by hand", "of PyTorch's parts", DEEPSPEED])
def test_engines_give_what_one_process_gives(name):
    run = launch(lab("expert_engines").compare, name, world_size=2, device="cpu")
    for gaps in run.values:
        assert max(gaps) < 1e-5


def test_a_grouped_product_is_as_many_products():
    engines = lab("expert_engines")
    torch.manual_seed(0)
    grouped = engines.GroupedExperts(8, 16, 3)
    loop = engines.Experts(8, 16, 3)
    loop.load_state_dict(grouped.state_dict())
    x, counts = torch.randn(10, 8), torch.tensor([4, 0, 6])
    assert torch.allclose(grouped(x, counts), loop(x, counts), rtol=1e-5, atol=1e-6)


@pytest.mark.deep
def test_balance_spreads_the_letters():
    """Not a race: without balance one expert gets several times its share, with it none does."""
    experts, busiest = lab("experts"), {}
    for name, how in {"none": {}, "loss": {"weight": 0.1}, "bias": {"rate": 0.01}}.items():
        _, loads = experts.train(
            experts.make_expert_transformer(8), experts.standard_library(), 120, **how
        )
        shares = loads[-20:, 0].sum(0) / loads[-20:, 0].sum()
        busiest[name] = 8 * shares.max().item()
    assert busiest["none"] > 2.5
    assert busiest["loss"] < 1.7
    assert busiest["bias"] < 2.2


def test_a_picture_of_loads():
    loads = torch.tensor([[3, 1], [2, 2], [0, 4]])
    plot_loads = load_solved_lab("expert_loads").plot_loads
    picture = plot_loads({"here": loads, "there": loads.flip(1)}, title="Loads")
    assert "here: 42%, 58%; there: 58%, 42%" in picture.alt
    for nonsense in ({}, {"here": loads[0]}, {"here": -loads}, {"here": 0 * loads}, loads):
        with pytest.raises(LaunchError, match="plot_loads"):
            plot_loads(nonsense)


@pytest.mark.parametrize("name", ["expert_parallel", "expert_engines"])
def test_frozen_experts_stay_frozen_on_ranks(name):
    run = launch(find_trainable, lab("experts"), lab(name), world_size=2, device="cpu")
    assert run.values == [{"up": False, "down": True}] * 2


def find_trainable(labs, remote):
    import torch.distributed as dist

    experts = labs.Experts(8, 16, 4)
    experts.up.requires_grad_(False)
    kind = getattr(remote, "TorchRemoteExperts", None) or remote.RemoteExperts
    here = kind(experts, dist.group.WORLD).experts
    return {name: p.requires_grad for name, p in here.named_parameters()}


def test_training_with_frozen_experts_moves_only_the_rest():
    run = launch(train_frozen, lab("expert_training"), text(), world_size=2, device="cpu")
    assert run.values == [[True, False]] * 2


def train_frozen(labs, text):
    model = labs.make_expert_transformer(2, **labs.SIZES)
    for layer in labs.expert_layers(model):
        layer.mlps.requires_grad_(False)
    training = labs.ExpertTraining(model, labs.Mesh({"edp": 1, "ep": 2}, labs.JOINT), labs.adam)
    watched = [training.layers[0].mlps.experts.up, training.layers[0].router.weight]
    before = [p.detach().clone() for p in watched]
    training.step(*labs.draw_batch(text, 8, 0, labs.SIZES["context"]))
    return [p.equal(x) for p, x in zip(watched, before)]


def test_a_routers_bias_stays_in_float32():
    layer = lab("experts").ExpertLayer(8, 4)
    layer.bias += 1 + 2**-20  # bfloat16 has 8 bits of it
    layer.bfloat16()
    assert layer.router.weight.dtype == torch.bfloat16
    assert layer.bias.tolist() == [1 + 2**-20] * 4
    assert layer.double().bias.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_routers_bias_has_at_least_32_bits_from_the_beginning(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        layer = lab("experts").ExpertLayer(8, 4)
    finally:
        torch.set_default_dtype(before)
    assert layer.router.weight.dtype == dtype
    assert layer.bias.dtype == torch.promote_types(dtype, torch.float32)


@pytest.mark.parametrize("recurse", [True, False])
def test_an_expert_layer_can_be_made_without_memory(recurse):
    with torch.device("meta"):
        layer = lab("experts").ExpertLayer(8, 4)
    layer.to_empty(device="cpu", recurse=recurse)
    assert layer.bias.device.type == "cpu"
    assert (layer.mlps.up.device.type == "cpu") == recurse


def test_the_balancing_loss_takes_more_choices_than_float16_has_numbers():
    scores = torch.zeros(140_000, 2, dtype=torch.float16)
    experts = (torch.arange(140_000) % 2).unsqueeze(1)
    assert lab("experts").balancing_loss(scores, experts).item() == pytest.approx(1, abs=1e-2)
