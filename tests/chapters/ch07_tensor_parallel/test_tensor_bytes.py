"""A transformer that is cut over ranks: its messages, bytes sent and bytes kept, exactly."""

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import launch, measure

TENSOR, SEQUENCE = load_solved_lab("tensor_parallel"), load_solved_lab("sequence_parallel")
MODELS = load_solved_lab("language_model")
WAYS = ("tensor parallel", "overlapped", "sequence parallel", "sequence parallel, gathered again")
REGATHERED = WAYS[3]
SAMPLES, LENGTH, WIDTH, HEADS, LAYERS = 32, 64, 64, 4, 1
UNIT = SAMPLES * LENGTH * WIDTH * 4  # bytes of what goes from block to block
KEPT_SIZES = {"plain": (HEADS, HEADS), "four queries for a key": (16, 4)}

# ---- Messages and bytes -------------------------------------------------------------------------


def one_block(way, heads, kv_heads):
    torch.manual_seed(0)
    n = dist.get_world_size() if way.startswith("sequence") else 1
    sizes = {"width": 32, "layers": 1, "heads": heads, "kv_heads": kv_heads}
    block = SEQUENCE.split_model(way, **sizes).blocks[0]
    x = torch.randn(3, 12 // n, 32, requires_grad=True)
    y = block(x)
    with measure(f"{way}, {heads} heads"):
        pass
    return y.shape


def step(way):
    """A step, and one block by itself."""
    sizes = {"width": WIDTH, "layers": LAYERS, "heads": HEADS}
    model = SEQUENCE.split_model(way, **sizes)
    batch = MODELS.draw_batch(MODELS.standard_library(5_000), SAMPLES, 0)
    with measure(f"{way}: forward"):
        loss = TENSOR.split_cross_entropy(model(batch[0]), batch[1])
    with measure(f"{way}: backward"):
        loss.backward()
    with measure(f"{way}: complete"):
        (SEQUENCE.completes(way) or (lambda model: None))(model)
    n = dist.get_world_size() if way.startswith("sequence") else 1
    x = torch.randn(SAMPLES, LENGTH // n, WIDTH, requires_grad=True)
    with measure(f"{way}: block forward"):
        y = model.blocks[0](x)
    with measure(f"{way}: block backward"):
        y.sum().backward()
    return {name: (p.nbytes, hasattr(p, "cut_dim")) for name, p in model.named_parameters()}


def all_steps():
    for heads, kv_heads in KEPT_SIZES.values():
        for way in WAYS:
            one_block(way, heads, kv_heads)
    return {way: step(way) for way in WAYS}


@pytest.fixture(scope="module", params=[1, 2, 4])
def steps(request):
    return launch(all_steps, world_size=request.param, device="cpu")


@pytest.mark.parametrize("way", ["tensor parallel", "overlapped"])
def test_messages(steps, way):
    x, number = UNIT, UNIT // WIDTH  # bytes of the activations; of one number for each target
    for what, sizes in {
        "forward": [x] + 2 * LAYERS * [x] + [number, 2 * number],  # embedding, blocks, loss
        "backward": [x] + 2 * LAYERS * [x],  # last layer, blocks
        "block forward": [x, x],
        "block backward": [x, x],
        "complete": [],
    }.items():
        for calls in steps[f"{way}: {what}"].calls:
            assert {call.name for call in calls} <= {"all_reduce"}
            assert [call.tensor_bytes for call in calls] == sizes, what


def all_reduced(steps, nbytes):
    """What a rank sends to add up so many bytes over all ranks."""
    return 2 * (steps.world_size - 1) / steps.world_size * nbytes


REGATHERS = {  # what is gathered a second time, in units of an all-reduce
    "forward": 0, "backward": LAYERS + 0.5, "block forward": 0, "block backward": 1,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_bytes_sent(steps, way):
    """A reduce-scatter and an all-gather are an all-reduce."""
    loss = 3 / WIDTH
    for what, units in {
        "forward": 2 * LAYERS + 1 + loss,
        "backward": 2 * LAYERS + 1,
        "block forward": 2,
        "block backward": 2,
    }.items():
        units += REGATHERS[what] if way == REGATHERED else 0
        for sent in steps[f"{way}: {what}"].sent_bytes:
            assert sent == pytest.approx(all_reduced(steps, units * UNIT), rel=0.005), what


def test_a_block_that_gathers_again_sends_a_quarter_more(steps):
    again, once = (
        sum(steps[f"{way}: block {what}"].sent_bytes[0] for what in ("forward", "backward"))
        for way in (REGATHERED, "sequence parallel")
    )
    assert again == pytest.approx(1.25 * once, rel=1e-3)


@pytest.mark.parametrize("way", WAYS[2:])
def test_partial_gradients(steps, way):
    """Of two norms and two biases for each block, the last norm, and the places."""
    kept = [nbytes for nbytes, is_cut in steps.values[0][way].values() if not is_cut]
    assert sum(kept) == ((6 * LAYERS + 2) + LENGTH) * WIDTH * 4
    for calls in steps[f"{way}: complete"].calls:
        assert [call.tensor_bytes for call in calls] == kept


# ---- What is kept -------------------------------------------------------------------------------


def count_kept_bytes(way, n, heads, kv_heads, letters=3 * 12, width=32):
    """Bytes on a CPU in float32, if n divides the heads of keys."""
    queries = width * (1 + 2 * kv_heads / heads)  # with keys and values
    if n < kv_heads < heads:
        queries += width  # they are copied, to stand in a row
    inside = (queries + width + 8 * width + heads) / n  # attention's result, MLP, log-sum-exps
    norms, entering = 2 * width + 4, 2 * width  # the inputs of norms, of the first linear layers
    if way.startswith("sequence"):
        norms /= n
    if way == REGATHERED:
        entering /= n
    return letters * (inside + norms + entering) * 4


@pytest.mark.parametrize("heads", KEPT_SIZES.values(), ids=KEPT_SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_activations_kept(steps, way, heads):
    for most in steps[f"{way}, {heads[0]} heads"].peak_bytes:
        assert most["activations"] == count_kept_bytes(way, steps.world_size, *heads)


NOT_CUT = {
    "places.weight", "norm.weight", "norm.bias",
    *(f"blocks.{i}.{name}" for i in range(LAYERS) for name in (
        "norm_1.weight", "norm_1.bias", "norm_2.weight", "norm_2.bias",
        "attention.output.bias", "mlp.2.bias")),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_parameters_kept(steps, way):
    model = MODELS.Transformer(WIDTH, LAYERS, HEADS)
    for of_rank, most in zip(steps.values, steps[f"{way}: complete"].peak_bytes):
        assert most["parameters"] == sum(nbytes for nbytes, _ in of_rank[way].values())
        assert {name for name, (_, is_cut) in of_rank[way].items() if not is_cut} == NOT_CUT
        for name, p in model.named_parameters():
            parts = 1 if name in NOT_CUT else steps.world_size
            assert of_rank[way][name][0] == p.nbytes / parts
