"""A transformer that is cut over ranks computes what the whole one does, in float64."""

import copy
from functools import partial

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import RankError, launch
from pedagogy_lib.basics.closeness import close, relative_gap, rounding

CONTEXT, STEPS = 12, 5
# A key's bias adds the same to all scores of a query, so its gradient is nothing but rounding. With
# the usual eps of 1e-8, Adam makes 1e-12 of that.
ADAM = partial(torch.optim.Adam, lr=1e-3, eps=1e-6)


TENSOR, SEQUENCE = load_solved_lab("tensor_parallel"), load_solved_lab("sequence_parallel")
MODELS, LLAMA = load_solved_lab("language_model"), load_solved_lab("llama").Llama
IN_PARTS, HEADS = load_solved_lab("model_in_parts"), load_solved_lab("replicated_heads")
WAYS = ("tensor parallel", "overlapped", "sequence parallel", "sequence parallel, gathered again")

# ---- Numbers ------------------------------------------------------------------------------------

CASES = {  # sizes, and what is frozen
    "plain": ({"heads": 4, "layers": 2}, ()),
    "tied, two queries for a key": ({"heads": 8, "kv_heads": 4, "tied": True}, ()),
    "frozen": (
        {"heads": 6, "width": 18},
        ("letters.weight", "output.weight", "blocks.0.mlp.0.weight", "blocks.0.mlp.0.bias",
         "blocks.0.mlp.2.bias", "blocks.0.norm_1.weight"),
    ),
    "frozen and tied": ({"heads": 4, "tied": True}, ("letters.weight", "places.weight")),
    "Llama, uneven": ({"make": LLAMA, "heads": 8, "kv_heads": 4, "inside": 7, "layers": 2}, ()),
    "Llama, frozen and tied": (
        {"make": LLAMA, "heads": 4, "tied": True, "inside": 5},
        ("letters.weight", "blocks.0.norm_1.weight", "blocks.0.mlp.0.weight"),
    ),
}  # fmt: skip
PLAIN, GROUPED, FROZEN, FROZEN_TIED, UNEVEN_LLAMA, FROZEN_LLAMA = CASES
TRIED = {
    1: [PLAIN, UNEVEN_LLAMA],
    2: [PLAIN, GROUPED, FROZEN_TIED, UNEVEN_LLAMA, FROZEN_LLAMA],
    3: [GROUPED, FROZEN, UNEVEN_LLAMA],
    4: [FROZEN, FROZEN_LLAMA],
}


def make_model(sizes, frozen=()):
    torch.manual_seed(0)
    sizes = {"make": MODELS.Transformer, "width": 16, "layers": 1, "context": CONTEXT, **sizes}
    model = sizes.pop("make")(**sizes).double()
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    return model


def largest_gap(whole, split, of=lambda parameter: parameter) -> float:
    """Between two models on this rank: of each parameter, or of something that is cut as it is."""
    ours, gaps = dict(split.named_parameters()), [0.0]
    assert ours.keys() == dict(whole.named_parameters()).keys()
    for name, parameter in whole.named_parameters():
        wanted, found = of(parameter), of(ours[name])
        assert (wanted is None) == (found is None), name
        if wanted is not None:
            if hasattr(ours[name], "cut_dim"):
                parts = wanted.split(ours[name].cut_sizes, ours[name].cut_dim)
                wanted = parts[dist.get_rank()]
            gaps.append(relative_gap(found, wanted))
    return max(gaps)


def backward(way, whole, split, batch):
    """Both models' gradients; returns the difference of their losses."""
    loss = MODELS.mean_loss(whole(batch[0]), batch[1])
    ours = TENSOR.split_cross_entropy(split(batch[0]), batch[1])
    loss.backward()
    ours.backward()
    complete = SEQUENCE.completes(way)
    if complete:
        complete(split)
    return relative_gap(ours, loss)


def gaps_in_training(way, sizes, frozen):
    """The largest differences to one process in five steps, and whether both began the same."""
    whole = make_model(sizes, frozen)
    split = SEQUENCE.WAYS[way](copy.deepcopy(whole))
    gaps = {"at first": largest_gap(whole, split)}
    optimizers = [ADAM(model.parameters()) for model in (whole, split)]
    text, later = MODELS.standard_library(5_000), []
    for step in range(STEPS):
        later.append(backward(way, whole, split, MODELS.draw_batch(text, 3, step, CONTEXT)))
        later.append(largest_gap(whole, split, of=lambda p: p.grad))
        norm = TENSOR.gradient_norm(split)
        later.append(relative_gap(norm, torch.nn.utils.clip_grad_norm_(whole.parameters(), 1e9)))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        later.append(largest_gap(whole, split))
    return gaps | {"later": max(later)}


def all_gaps(cases):
    torch.manual_seed(dist.get_rank())
    return {(way, case): gaps_in_training(way, *CASES[case]) for way in WAYS for case in cases}


@parametrize("n", [3, 1, 2, 4], quick=1)
def test_equals_one_process(n):
    """Over 3 and 4 ranks letters, and heads and MLP of one case, cannot be cut evenly."""
    most = rounding(steps=STEPS)
    for gaps in launch(all_gaps, TRIED[n], world_size=n, device="cpu").values:
        assert {case: gap["at first"] for case, gap in gaps.items() if gap["at first"]} == {}
        assert {case: gap["later"] for case, gap in gaps.items() if gap["later"] > most} == {}


def begun(way):
    """By how much a split model, put together, differs from one that was made in one process."""
    torch.manual_seed(5 + dist.get_rank())
    sizes = {"width": 16, "heads": 4, "context": CONTEXT}
    split = dict(SEQUENCE.split_model(way, **sizes).named_parameters())
    torch.manual_seed(0)
    whole = MODELS.Transformer(**sizes).named_parameters()
    return max(relative_gap(TENSOR.whole(split[name]), p) for name, p in whole)


@pytest.mark.parametrize("n", [1, 3])
def test_the_first_weights_do_not_depend_on_the_number_of_ranks(n):
    for values in zip(*launch(lambda: [begun(way) for way in WAYS], world_size=n).values):
        assert set(values) == {0}


def refusal(heads, kv_heads):
    model = MODELS.Transformer(heads=heads, kv_heads=kv_heads)
    try:
        TENSOR.parallelize(model)
    except ValueError as error:
        return str(error)


def test_there_are_not_more_ranks_than_heads_of_keys():
    run = launch(lambda: [refusal(2, None), refusal(8, 2), refusal(8, 4)], world_size=3)
    assert run.values == [[
        "3 ranks, but 2 key-value heads: take fewer ranks, or FewHeads of "
        "labs/replicated_heads.py, where several ranks have the same head",
    ] * 2 + [
        None,
    ]] * 3  # fmt: skip


def apart_and_together():
    """Sums and parts have memory of their own; and parts go together again."""
    torch.manual_seed(0)
    x = torch.nn.Parameter(torch.randn(7, 8, dtype=torch.float64).T)  # not contiguous
    part = TENSOR.part_of(x, -1)
    total = TENSOR.summed(x.detach())
    return [
        torch.equal(TENSOR.whole(part), x),
        torch.equal(TENSOR.whole(part, of=2 * part), 2 * x),
        part.untyped_storage().nbytes() == part.nbytes and part.is_contiguous(),
        close(total, x.detach() * dist.get_world_size()) and total.data_ptr() != x.data_ptr(),
    ]


@pytest.mark.parametrize("n", [1, 3])
def test_apart_and_together(n):
    assert launch(apart_and_together, world_size=n, device="cpu").values == [[True] * 4] * n


def norms():
    """Of gradients by hand: none cut, all cut, none there."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 5).double()
    layer.weight.grad, layer.bias.grad = torch.randn(5, 6).double(), torch.randn(5).double()
    found = [TENSOR.gradient_norm(layer)]
    column = TENSOR.ColumnLinear(layer)
    for name, p in column.named_parameters():
        p.grad = TENSOR.cut(layer.get_parameter(name).grad, 0)
    found.append(TENSOR.gradient_norm(column))
    wanted = torch.nn.utils.get_total_norm([p.grad for p in layer.parameters()])
    layer.zero_grad()
    return [relative_gap(x, wanted) for x in found], TENSOR.gradient_norm(layer).item()


def test_the_norm_of_gradients_that_are_all_cut_or_not_at_all():
    for gaps, of_nothing in launch(norms, world_size=3, device="cpu").values:
        assert max(gaps) <= rounding()
        assert of_nothing == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_shared_head_counts_once_in_the_norm(n):
    text = torch.arange(2000) % 97
    run = launch(IN_PARTS.norms_with_shared_heads, text, world_size=n)
    for wanted, of_each_rank, once in map(dict.values, run.values):
        assert abs(once / wanted - 1) <= rounding()
        assert (of_each_rank > 1.01 * wanted) == (n > 1)


def norms_with_a_frozen_weight() -> list[float]:
    model = torch.nn.ParameterList([torch.zeros(2), torch.zeros(3)])
    model[0].cut_dim, model[0].grad = 0, torch.full((2,), 3.0)
    return [find(model).item() for find in (TENSOR.gradient_norm, IN_PARTS.norm_with_copies)]


def test_a_weight_without_a_gradient_counts_as_zeros_in_both_norms():
    for first, second in launch(norms_with_a_frozen_weight, world_size=2).values:
        assert first == pytest.approx(6.0) == second


def norms_of_float16() -> list[float]:
    """Gradients of 300 in float16, of norm 900 on rank 0 and 1,200 on rank 1; both have one 800."""
    parts = torch.full((9 + 7 * dist.get_rank(),), 300.0), torch.full((1,), 800.0)
    model = torch.nn.ParameterList(torch.zeros_like(part).half() for part in parts)
    model[0].cut_dim = 0
    for p, part in zip(model, parts):
        p.grad = part.half()
    return [find(model).item() for find in (TENSOR.gradient_norm, IN_PARTS.norm_with_copies)]


def test_the_norm_of_float16_gradients_is_finite():
    assert launch(norms_of_float16, world_size=2, device="cpu").values == [[1700.0, 1700.0]] * 2


# ---- Targets that are left out, and tokens that do not exist ------------------------------------


def compare_losses(targets) -> list[float]:
    """The loss and its gradient, ours and PyTorch's; the gradient is this rank's part."""
    torch.manual_seed(0)
    whole = torch.randn(*targets.shape, 10, dtype=torch.float64, requires_grad=True)
    sizes = TENSOR.part_sizes(10, dist.get_world_size())
    part = whole.detach().split(sizes, -1)[dist.get_rank()].requires_grad_()
    ours = TENSOR.split_cross_entropy(part, targets, vocabulary=10)
    theirs = torch.nn.functional.cross_entropy(whole.flatten(0, -2), targets.flatten())
    (2 * ours).backward()
    (2 * theirs).backward()
    wanted = whole.grad.split(sizes, -1)[dist.get_rank()]
    return [torch.stack([ours, theirs]).tolist(), (part.grad - wanted).abs().max().item()]


@pytest.mark.parametrize("n", [1, 3])
def test_targets_of_minus_100_are_left_out_of_the_split_loss(n):
    targets = torch.tensor([[3, -100, 9], [-100, 0, -100]])
    for (ours, theirs), gap in launch(compare_losses, targets, world_size=n, device="cpu").values:
        assert close(ours, theirs) and gap < 1e-12


def gradients_of_confident_logits(dtype):
    """Return the loss and this rank's gradient of logits of 16 bits, ours and in float64."""
    torch.manual_seed(0)
    targets = torch.randint(10, (64,))
    exact = (torch.randn(64, 10) + 8 * torch.eye(10)[targets]).to(dtype).double().requires_grad_()
    sizes = TENSOR.part_sizes(10, dist.get_world_size())
    part = exact.detach().to(dtype).split(sizes, -1)[dist.get_rank()].requires_grad_()
    ours = TENSOR.split_cross_entropy(part, targets, vocabulary=10)
    theirs = torch.nn.functional.cross_entropy(exact, targets)
    ours.backward()
    theirs.backward()
    wanted = exact.grad.split(sizes, -1)[dist.get_rank()]
    return [ours.item() / theirs.item(), ((part.grad - wanted).norm() / wanted.norm()).item()]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_split_loss_of_logits_of_16_bits_is_computed_in_float32(dtype):
    run = launch(gradients_of_confident_logits, dtype, world_size=2, device="cpu")
    for ratio, gap in run.values:
        assert ratio == pytest.approx(1, rel=1e-4)
        assert gap < 0.01


def test_without_any_target_the_split_loss_is_not_a_number_as_in_one_process():
    targets = torch.full((2, 3), -100)
    for losses, _ in launch(compare_losses, targets, world_size=2, device="cpu").values:
        assert losses[0] != losses[0] and losses[1] != losses[1]


def refusals_of(tokens) -> list[str]:
    """What the loss and the embedding say to tokens; afterwards, the ranks still are in step."""
    layer = TENSOR.VocabularyEmbedding(torch.nn.Embedding(10, 4))
    logits = torch.zeros(len(tokens), TENSOR.part_sizes(10, 2)[dist.get_rank()])
    said = []
    for refuse in (layer, lambda targets: TENSOR.split_cross_entropy(logits, targets, None, 10)):
        with pytest.raises(IndexError) as caught:
            refuse(tokens)
        said.append(str(caught.value))
        dist.barrier()
    return said


@pytest.mark.parametrize("token", [10, 500, -1])
def test_a_token_outside_of_the_vocabulary_is_refused_on_every_rank(token):
    for said in launch(refusals_of, torch.tensor([3, token]), world_size=2, device="cpu").values:
        assert said[0] == said[1] and "but a vocabulary of 10 has 0 to 9" in said[0]


# ---- Accumulation -------------------------------------------------------------------------------


def accumulate_in_pieces(calls):
    """Accumulate two micro-batches, with 1 or 2 calls of sum_partial_gradients."""
    whole = make_model({"heads": 4})
    split = SEQUENCE.parallelize_sequence(copy.deepcopy(whole))
    for step in (0, 1):
        batch = MODELS.draw_batch(MODELS.standard_library(5_000), 3, step, CONTEXT)
        MODELS.mean_loss(whole(batch[0]), batch[1]).backward()
        TENSOR.split_cross_entropy(split(batch[0]), batch[1]).backward()
        if step >= 2 - calls:
            SEQUENCE.sum_partial_gradients(split)
    return largest_gap(whole, split, of=lambda p: p.grad)


def accumulate_in_shared_heads(calls):
    """Do the same with sum_shared_gradients, on ranks that share one key-value head."""
    whole = MODELS.Attention(16, 4, 1).double()
    split = HEADS.FewHeads(whole)
    for step, x in enumerate(torch.randn(2, 3, 5, 16).double()):
        whole(x).square().sum().backward()
        split(x).square().sum().backward()
        if step >= 2 - calls:
            split.sum_shared_gradients()
    rows = torch.cat([of_heads[split.head] for of_heads in HEADS.rows_of_heads(whole)[1:]])
    return relative_gap(split.key_value.weight.grad, whole.query_key_value.weight.grad[rows])


@pytest.mark.parametrize("work", [accumulate_in_pieces, accumulate_in_shared_heads])
def test_gradients_are_completed_once_after_the_last_of_several_backwards(work):
    once, twice = (launch(work, calls, world_size=2, device="cpu").values for calls in (1, 2))
    assert max(once) <= rounding() and min(twice) > 0.1


# ---- Under autocast -----------------------------------------------------------------------------


def gradients_under_autocast():
    """Return the largest relative error of a gradient, beside one process in float32."""
    torch.manual_seed(0)
    alone = MODELS.Transformer(16, 2)
    split = TENSOR.parallelize(copy.deepcopy(alone))
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(5_000), 8, 0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = TENSOR.split_cross_entropy(split(inputs), targets)
    loss.backward()
    MODELS.mean_loss(alone(inputs), targets).backward()
    pairs = [(TENSOR.whole(p, of=p.grad), q.grad)
             for p, q in zip(split.parameters(), alone.parameters())]  # fmt: skip
    return max(((p - q).norm() / q.norm()).item() for p, q in pairs)


def test_under_autocast_gradients_are_rounded_and_nothing_else():
    for error in launch(gradients_under_autocast, world_size=2, device="cpu").values:
        assert 0.001 < error < 0.03


# ---- Randomness ---------------------------------------------------------------------------------


def streams():
    """What is drawn: in common, and from a stream of this rank's own."""
    torch.manual_seed(1)
    alone = torch.rand(3).tolist()
    torch.manual_seed(1)
    randomness, other = TENSOR.OwnRandomness(7), TENSOR.OwnRandomness(8)
    common = [torch.rand(1).item()]
    with randomness:
        own = [torch.rand(1).item()]
        with other:
            others = torch.rand(1).item()
        own.append(torch.rand(1).item())
    common.append(torch.rand(1).item())
    try:
        with randomness:
            own.append(torch.rand(1).item())
            raise KeyError
    except KeyError:
        common.append(torch.rand(1).item())
    return {"common": common == alone, "own": [*own, others], "seeded": draw_stream(7, 3) == own}


def draw_stream(seed, count):
    """The stream that OwnRandomness(seed) should have."""
    torch.manual_seed(seed + 1 + dist.get_rank())
    return [torch.rand(1).item() for _ in range(count)]


def test_each_rank_has_randomness_of_its_own():
    found = launch(streams, world_size=3, device="cpu").values
    assert not [of_rank for of_rank in found if not (of_rank["common"] and of_rank["seeded"])]
    for drawn in zip(*(of_rank["own"] for of_rank in found)):
        assert len(set(drawn)) == 3
    assert not [of_rank for of_rank in found if len(set(of_rank["own"])) != 4]


def go_back_within_randomness():
    randomness, x = TENSOR.OwnRandomness(seed=0), torch.ones(4, 4, requires_grad=True)

    def layer(x):
        with randomness:
            return torch.nn.functional.dropout(x, 0.5)

    y = IN_PARTS.recompute_with_streams(lambda x: layer(x).square(), x, randomness)
    with randomness:
        y.sum().backward()


def test_a_backward_that_would_draw_other_masks_is_refused():
    with pytest.raises(RankError, match="RuntimeError: the backward has to be called outside of"):
        launch(go_back_within_randomness, world_size=1, device="cpu")
