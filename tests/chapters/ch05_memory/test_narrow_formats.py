"""Numbers of 8 and 4 bits: formats, scales, products, training, and bytes on the wire."""

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import close, launch

NARROW, TRAINING, WIRE, MODELS = map(
    load_solved_lab, ("narrow_formats", "narrow_training", "narrow_collectives", "language_model")
)
E4M3, E5M2, E2M1 = NARROW.E4M3, NARROW.E5M2, NARROW.E2M1
EXACT = NARROW.Format(torch.float64, torch.float64)


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# ---- Numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "exponents", "digits", "bias", "nans"),
                         [(E4M3, 16, 8, 7, 1), (E5M2, 31, 4, 15, 0)])  # fmt: skip
def test_all_numbers_follow_the_formula(dtype, exponents, digits, bias, nans):
    positive = {
        (1 + f / digits) * 2.0 ** (e - bias) if e else f / digits * 2.0 ** (1 - bias)
        for e in range(exponents) for f in range(digits)
    }  # fmt: skip
    positive = sorted(positive)[: len(positive) - nans]
    found = NARROW.list_numbers(dtype)
    assert found[found >= 0].tolist() == positive
    assert torch.equal(found, -found.flip(0))


def test_numbers_of_four_bits_are_rounded_to_the_nearest():
    x = torch.tensor([0.2, 0.3, -1.3, 2.4, 2.6, -4.9, 5.1, 100.0, -0.0])
    found = NARROW.round_to(x, E2M1)
    assert found.tolist() == [0.0, 0.5, -1.5, 2.0, 3.0, -4.0, 6.0, 6.0, 0.0]
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])  # to the even code
    assert NARROW.round_to(ties, E2M1).tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize("shape", [(1,), (31,), (32,), (33,), (3, 65), (2, 0 + 1, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mxfp8_comes_back_within_half_a_step(shape, dtype):
    x, mxfp8 = draw(*shape).to(dtype), NARROW.MXFP8()
    elements, scales = mxfp8.quantize(x)
    assert elements.nbytes == x.numel()
    assert scales.shape == (*shape[:-1], -(-shape[-1] // 32))
    back = mxfp8.dequantize(elements, scales)
    floor = scales.float().repeat_interleave(32, -1)[..., : shape[-1]] * 2.0**-10
    assert ((back - x.float()).abs() <= (x.float().abs() / 16).maximum(floor)).all()


def test_an_infinity_is_seen_after_a_cast_to_mxfp8():
    x = torch.tensor([1.0, float("inf"), 2.0, 3.0, 4.0, float("nan"), 0.0, 0.0])
    back = NARROW.MXFP8(2).dequantize(*NARROW.MXFP8(2).quantize(x))
    assert back.isnan().tolist() == [True, True, False, False, True, True, False, False]


@pytest.mark.parametrize("name", NARROW.FORMATS)
def test_scaled_numbers_keep_the_largest_of_their_block_and_zeros(name):
    form = NARROW.FORMATS[name]
    x = draw(4, 60) * 2.0**-30  # blocks of 32 and of 16 do not divide a row
    x[0] = 0
    found = form.cast(x)
    assert found.shape == x.shape
    if form.scales is None and form.numbers == E4M3:
        assert not found.any(), "numbers so small need a scale"
        return
    assert not found[0].any()
    share = {"tensor": 240, "row": 60}.get(form.share, form.share)
    rows = (x.view(1, -1), found.view(1, -1)) if share == 240 else (x[1:], found[1:])
    blocks, rounded = (NARROW.split_rows(t, share) for t in rows)
    off = (rounded - blocks).abs().amax(-1) / blocks.abs().amax(-1)
    assert off.max() <= (1 / 4 if form.numbers == E2M1 else 1 / 16)


@pytest.mark.parametrize("name", NARROW.FORMATS)
def test_no_format_rounds_anything_to_infinity(name):
    x = torch.tensor([[448.0, 449.0, 1e4, 6.0] * 16])
    for is_gradient in (False, True):
        assert NARROW.FORMATS[name].cast(x, is_gradient).isfinite().all()


def test_four_bits_need_small_blocks_and_eight_bits_a_scale():
    errors = NARROW.compare_formats(MODELS.standard_library(20_000))
    assert errors["E4M3, not scaled"][1] > 0.9
    assert max(errors["E4M3, per tensor"] + errors["MXFP8 (E4M3)"]) < 0.05
    pairs = zip(errors["NVFP4 (E2M1)"], errors["E2M1, per tensor"])
    assert all(small < one for small, one in pairs)


def test_the_picture_has_a_line_for_each_number():
    picture = load_solved_lab("narrow_pictures").plot_numbers()
    lines = [len(rows.get_segments()) for rows in picture.figure.axes[0].collections]
    assert lines[2:] == [123, 126, 7], "E5M2, E4M3 and E2M1: half of their numbers but 0"


# ---- Products and training ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_without_rounding_a_narrow_layer_is_a_linear_layer(shape, bias):
    torch.manual_seed(0)
    linear = torch.nn.Linear(6, 5, bias=bias).double()
    narrow = TRAINING.NarrowLinear(linear, EXACT)
    found = []
    for layer in (linear, narrow):
        x = draw(*shape, dtype=torch.float64).requires_grad_()
        y = layer(x)
        gradients = torch.autograd.grad(y.square().sum(), [x, *linear.parameters()])
        found.append([y.detach(), *gradients])
    assert close(*found)


def test_a_narrow_layer_rounds_each_input_along_the_sum():
    """With a scale per row, a large token spoils nothing of other tokens' outputs."""
    form = NARROW.FORMATS["E4M3, per row"]
    x, weight = draw(8, 64), draw(16, 64, seed=1)
    before = TRAINING.NarrowProduct.apply(x, weight, form)
    x[3] *= 1e6
    after = TRAINING.NarrowProduct.apply(x, weight, form)
    others = torch.arange(8) != 3
    assert torch.equal(before[others], after[others])


@pytest.mark.parametrize("name", TRAINING.FORMATS)
def test_the_backward_multiplies_what_was_saved_as_if_it_were_cast_then(name):
    form = NARROW.FORMATS[name]
    x, weight, slope = draw(40, 64), draw(16, 64, seed=1), draw(40, 16, seed=2)
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    TRAINING.NarrowProduct.apply(*leaves, form).backward(slope)
    of_x = form.cast(slope, is_gradient=True) @ form.cast(weight.T).T
    of_weight = form.cast(slope.T, is_gradient=True) @ form.cast(x.T).T
    assert torch.equal(leaves[0].grad, of_x) and torch.equal(leaves[1].grad, of_weight)


@pytest.mark.parametrize(("name", "size"), [
    ("float32", 4), ("bfloat16", 2), ("E4M3, per tensor", 1 + 4 / 65_536),
    ("E4M3, per row", 1 + 4 / 1_024), ("MXFP8 (E4M3)", 1 + 1 / 32),
])  # fmt: skip
def test_a_layer_saves_its_input_as_the_format_keeps_it(name, size):
    assert TRAINING.count_saved(name) == size


@pytest.mark.parametrize(("gaps", "word"), [
    ([0.02, 0.03, 0.025], "higher"), ([-0.02, -0.03, -0.025], "lower"),
    ([0.011, 0.2, 0.02], "no difference seen here"), ([0.0, 0.0, 0.0], "no difference seen here"),
    ([0.001, 0.0011, 0.0009], "higher"), ([float("inf"), 0.1, 0.2], "higher"),
])  # fmt: skip
def test_a_gap_counts_from_five_standard_errors(gaps, word):
    assert TRAINING.describe_gaps(gaps) == word


@pytest.mark.parametrize("share", ["tensor", "row"])
def test_emulated_products_equal_the_real_ones(share):
    off = TRAINING.compare_with_torch(draw(32, 64), draw(48, 64, seed=1), share)
    if isinstance(off, str):
        pytest.skip(f"this PyTorch has no such product here: {off}")
    assert off < 1e-5


def test_only_the_layers_of_blocks_become_narrow():
    model = MODELS.Transformer(32, 2, tied=True)
    before = dict(model.named_parameters())
    TRAINING.narrow_blocks(model, NARROW.FORMATS["MXFP8 (E4M3)"])
    kinds = [type(module).__name__ for module in model.modules()]
    assert kinds.count("NarrowLinear") == 8 and kinds.count("Linear") == 1
    assert {name: id(p) for name, p in model.named_parameters()} == {
        name: id(p) for name, p in before.items()
    }


def test_most_gradients_that_are_not_scaled_become_zero():
    torch.manual_seed(0)
    model = MODELS.Transformer(32, 1)
    TRAINING.narrow_blocks(model, NARROW.FORMATS["E4M3, not scaled"])
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(20_000), 8, 0)
    MODELS.mean_loss(model(inputs), targets).backward()
    shares = [layer.weight.grad.count_nonzero().item() / layer.weight.numel()
              for layer in (model.blocks[0].mlp[0], model.output)]  # fmt: skip
    assert shares[0] < 0.1 and shares[1] > 0.9


def test_ranks_share_trainings_and_find_what_one_finds():
    text, names = MODELS.standard_library(20_000), ("bfloat16", "E4M3, per tensor")
    one, two = (
        launch(TRAINING.compare_trainings, names, text, 2, (0, 1), world_size=n, device="cpu")
        for n in (1, 2)
    )
    assert one.values[0] == two.values[0] == two.values[1]
    rows = TRAINING.loss_rows(one.values[0])
    assert [row[0] for row in rows] == list(names)
    rates = one.values[0]["bfloat16"]["tried"]
    assert min(rates) < TRAINING.best_rate(rates) < max(rates)


# ---- On the wire --------------------------------------------------------------------------------


def on_ranks(name, group_of):
    """Return on each rank what a function of the lab gives, and what it should give."""
    group = dist.new_group(group_of) if group_of else None
    if group_of and dist.get_rank() not in group_of:
        return None
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    mxfp8 = WIRE.MXFP8()
    if name == "gather_blocks":
        whole = draw(3 * n, 45)
        shard = whole.chunk(n)[rank]
        return WIRE.gather_blocks(shard, group), mxfp8.dequantize(*mxfp8.quantize(whole))
    each = [torch.randint(-4, 5, (n, 45), generator=torch.Generator().manual_seed(k)).float()
            for k in range(n)]  # fmt: skip
    return WIRE.WAYS_TO_SUM[name](each[rank], group), sum(x[rank] for x in each)


@pytest.mark.parametrize("name", ["gather_blocks", *WIRE.WAYS_TO_SUM])
@pytest.mark.parametrize(("n", "group"), [(1, None), (2, None), (3, None), (4, [1, 2, 3])])
def test_gathers_and_sums_are_right_where_eight_bits_are_enough(name, n, group):
    for value in launch(on_ranks, name, group, world_size=n, device="cpu").values:
        if value is not None:
            assert torch.equal(*value)


def sum_own_row(name) -> tuple:
    """Sum where this rank's own row alone is not zero."""
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.zeros(n, 45)
    x[rank] = draw(45, seed=rank)
    return WIRE.WAYS_TO_SUM[name](x), x[rank]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", WIRE.WAYS_TO_SUM)
def test_what_does_not_travel_is_not_rounded(name, n):
    for value in launch(sum_own_row, name, world_size=n, device="cpu").values:
        assert torch.equal(*value)


def test_only_where_ranks_agree_a_sum_becomes_better_with_more_ranks():
    text = MODELS.standard_library(20_000)
    weights = launch(WIRE.train_weights, text, 2, world_size=1, device="cpu").values[0]
    few, many = (
        launch(WIRE.measure_sums, text, weights, world_size=n, device="cpu").values[0]
        for n in (2, 8)
    )
    _, exchanged, ring = WIRE.WAYS_TO_SUM
    for kind in few:
        assert few[kind][exchanged] == few[kind][ring], "two ranks send the same"
        assert many[kind][ring] > 2 * few[kind][ring]
        assert many[kind][exchanged] < many[kind][ring] / 1.9
    assert many["a new model"][exchanged] < few["a new model"][exchanged]
    assert many["noise"][exchanged] > few["noise"][exchanged]
    unrounded = [1 - 1 / n for n in (2, 8)]  # the share of the rows that travels
    ratio = many["noise"][exchanged] / few["noise"][exchanged]
    assert ratio == pytest.approx((unrounded[1] / unrounded[0]) ** 0.5, rel=0.02)


def test_mxfp8_halves_the_bytes_of_bfloat16_but_for_scales():
    run = launch(WIRE.measure_gathers, world_size=3, device="cpu")
    for rank in range(3):
        ratio = run["MXFP8"].sent_bytes[rank] / run["bfloat16"].sent_bytes[rank]
        assert ratio == pytest.approx((1 + 1 / 32) / 2, rel=0.01)
