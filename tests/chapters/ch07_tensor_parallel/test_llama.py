"""A Llama model: equal to plain formulas and to `transformers`, alone and on ranks, in float64."""

import copy
import math
import types
from functools import partial

import needs
import pytest
import torch
import torch.nn.functional as F
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import relative_gap

EXACT = 1e-12
CONTEXT, WIDTH, HEADS, INSIDE, LETTERS = 11, 24, 6, 20, 128
LLAMA, MODELS = load_solved_lab("llama"), load_solved_lab("language_model")
PLANS = load_solved_lab("any_plan")


def make_llama(**sizes):
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "heads": HEADS, "inside": INSIDE, "context": CONTEXT} | sizes
    model = LLAMA.Llama(**sizes).double()
    for p in model.parameters():  # also the norms' weights, which begin as ones
        torch.nn.init.normal_(p, mean=float(p.dim() == 1), std=0.3)
    return model


def batch():
    torch.manual_seed(1)
    return torch.randint(LETTERS, (2, 3, CONTEXT)).unbind()


def split_names(model, kv_heads) -> dict:
    """Return the model's parameters under the names of `transformers`, as views of its own."""
    found = {"model.embed_tokens.weight": model.letters.weight, "model.norm.weight":
             model.norm.weight, "lm_head.weight": model.output.weight}  # fmt: skip
    for number, block in enumerate(model.blocks):
        rows = block.attention.query_key_value.weight.view(
            kv_heads, HEADS // kv_heads + 2, -1, WIDTH
        )
        gates = block.mlp[0].weight.view(INSIDE, 2, WIDTH)
        found |= {f"model.layers.{number}.{name}.weight": part for name, part in {
            "input_layernorm": block.norm_1.weight,
            "self_attn.q_proj": rows[:, :-2].reshape(-1, WIDTH),
            "self_attn.k_proj": rows[:, -2].reshape(-1, WIDTH),
            "self_attn.v_proj": rows[:, -1].reshape(-1, WIDTH),
            "self_attn.o_proj": block.attention.output.weight,
            "post_attention_layernorm": block.norm_2.weight,
            "mlp.gate_proj": gates[:, 0],
            "mlp.up_proj": gates[:, 1],
            "mlp.down_proj": block.mlp[2].weight,
        }.items()}  # fmt: skip
        if isinstance(block.attention.norm_q, torch.nn.RMSNorm):
            found |= {f"model.layers.{number}.self_attn.{x}_norm.weight":
                      getattr(block.attention, f"norm_{x}").weight for x in "qk"}  # fmt: skip
    return found


# ---- Plain formulas -----------------------------------------------------------------------------


def plain_norm(x, weight):
    return weight * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def plain_rotation(x, base):
    """Rotate (samples, places, heads, size) by complex numbers of length 1."""
    half = x.shape[-1] // 2
    angles = torch.tensor([[p * base ** (-2 * i / (2 * half)) for i in range(half)]
                           for p in range(x.shape[1])], dtype=torch.float64)  # fmt: skip
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * angles)[:, None]
    return torch.cat([turned.real, turned.imag], -1)


def plain_scores(weights, letters, layers, kv_heads, base=10_000.0, qk_norm=False):
    """Compute a Llama's scores head by head, with `transformers`' names of the weights."""
    x = weights["model.embed_tokens.weight"][letters]
    size, later = WIDTH // HEADS, torch.ones(CONTEXT, CONTEXT).triu(1).bool()
    for number in range(layers):
        of = {name: weights[f"model.layers.{number}.{name}.weight"] for name in (
            "input_layernorm", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj",
            "mlp.down_proj", *(f"self_attn.{kind}_proj" for kind in "qkvo"))}  # fmt: skip
        y = plain_norm(x, of["input_layernorm"])
        q, k, v = ((y @ of[f"self_attn.{kind}_proj"].T).unflatten(-1, (-1, size)) for kind in "qkv")
        q, k = (plain_norm(part, norm) if norm is not None else part for part, norm in (
            (q, weights.get(f"model.layers.{number}.self_attn.q_norm.weight")),
            (k, weights.get(f"model.layers.{number}.self_attn.k_norm.weight"))))  # fmt: skip
        q, k = plain_rotation(q, base), plain_rotation(k, base)
        mixed = []
        for head in range(HEADS):
            shared = head * kv_heads // HEADS
            scores = q[:, :, head] @ k[:, :, shared].transpose(1, 2) / math.sqrt(size)
            mixed.append(scores.masked_fill(later, -math.inf).softmax(-1) @ v[:, :, shared])
        x = x + torch.cat(mixed, -1) @ of["self_attn.o_proj"].T
        y = plain_norm(x, of["post_attention_layernorm"])
        gate = y @ of["mlp.gate_proj"].T
        x = x + (gate * gate.sigmoid() * (y @ of["mlp.up_proj"].T)) @ of["mlp.down_proj"].T
    return plain_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T


def plain(weights, letters, targets, **shape):
    """Return scores, and the gradient of each of the weights, by the formulas above."""
    leaves = {name: part.clone().requires_grad_() for name, part in weights.items()}
    scores = plain_scores(leaves, letters, **shape)
    F.cross_entropy(scores.flatten(0, 1), targets.flatten()).backward()
    return scores, {name: leaf.grad for name, leaf in leaves.items()}


def by_transformers(
    weights, letters, targets, layers, kv_heads, qk_norm=False, dtype=torch.float64
):
    """Return scores, and the gradient of each of the weights, by its Llama or its Qwen 3."""
    import transformers

    kind = "Qwen3" if qk_norm else "Llama"
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=LETTERS, hidden_size=WIDTH, intermediate_size=INSIDE, num_hidden_layers=layers,
        num_attention_heads=HEADS, num_key_value_heads=kv_heads, rms_norm_eps=1e-5,
        max_position_embeddings=CONTEXT, attn_implementation="eager", use_cache=False,
        head_dim=WIDTH // HEADS,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForCausalLM")(config).to(dtype)
    model.load_state_dict(weights)
    scores = model(letters).logits
    F.cross_entropy(scores.flatten(0, 1), targets.flatten()).backward()
    return scores, {name: p.grad for name, p in model.named_parameters()}


def largest_gap(reference, layers, kv_heads, qk_norm=False, dtype=torch.float64) -> float:
    """Return the largest difference of scores and gradients from those of a reference."""
    shape = {"layers": layers, "kv_heads": kv_heads, "qk_norm": qk_norm}
    model, (letters, targets) = make_llama(**shape).to(dtype), batch()
    weights = {name: part.detach() for name, part in split_names(model, kv_heads).items()}
    wanted, gradients = reference(weights, letters, targets, **shape)
    scores = model(letters)
    MODELS.mean_loss(scores, targets).backward()
    of_model = make_llama(**shape).to(dtype)
    for p, q in zip(of_model.parameters(), model.parameters(), strict=True):
        p.data = q.grad  # so that gradients get the names, too
    found = split_names(of_model, kv_heads)
    assert found.keys() == gradients.keys()
    return max(relative_gap(scores, wanted),
               *(relative_gap(found[name], gradients[name]) for name in found))  # fmt: skip


SHAPES = [
    {"layers": 2, "kv_heads": 2}, {"layers": 1, "kv_heads": 1}, {"layers": 1, "kv_heads": 6},
    {"layers": 2, "kv_heads": 2, "qk_norm": True}, {"layers": 1, "kv_heads": 6, "qk_norm": True},
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scores_and_gradients_are_those_of_plain_formulas(shape):
    assert largest_gap(plain, **shape) < EXACT


def test_a_wrong_angle_is_noticed():
    assert largest_gap(partial(plain, base=10_001.0), **SHAPES[0]) > 1e-7


@needs.mark("transformers")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scores_and_gradients_are_those_of_transformers(shape, monkeypatch):
    """The package computes norms, angles and softmax in float32, whatever the model has."""
    from transformers.models.llama import modeling_llama
    from transformers.models.qwen3 import modeling_qwen3

    wide = {"float32": torch.float64, "float": torch.float64}
    for module in (modeling_llama, modeling_qwen3):
        monkeypatch.setattr(module, "torch", types.SimpleNamespace(**vars(torch) | wide))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    assert largest_gap(by_transformers, **shape) < EXACT


@needs.mark("transformers")
def test_transformers_as_it_is_agrees_in_float32():
    reference = partial(by_transformers, dtype=torch.float32)
    assert largest_gap(reference, **SHAPES[0], dtype=torch.float32) < 1e-4


# ---- Rotary positions ---------------------------------------------------------------------------


def test_scores_depend_on_the_distance_of_two_places_alone():
    q, k = torch.randn(2, 3, 5, 8, dtype=torch.float64).unbind()
    places = torch.arange(5)
    products = [LLAMA.rotate(q, places + far) @ LLAMA.rotate(k, places + far).transpose(1, 2)
                for far in (0, 1000)]  # fmt: skip
    assert relative_gap(*products) < 1e-11  # angles of a thousand lose three of sixteen digits
    apart = LLAMA.rotate(q, places + 1) @ LLAMA.rotate(k, places).transpose(1, 2)
    assert relative_gap(apart, products[0]) > 0.01


def test_a_piece_is_rotated_as_in_the_whole_context():
    x = torch.randn(2, 3, 12, 6, dtype=torch.float64)
    whole = LLAMA.rotate(x, torch.arange(12))
    pieces = [LLAMA.rotate(x[:, :, a : a + 4], torch.arange(a, a + 4)) for a in (0, 4, 8)]
    assert torch.equal(torch.cat(pieces, 2), whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_rotation_is_rounded_once(dtype):
    x, places = torch.randn(2, 3, 12, 64).to(dtype), torch.arange(90_000, 90_012)
    rotated = LLAMA.rotate(x, places)
    exact = LLAMA.rotate(x.double(), places)
    assert rotated.dtype == dtype
    assert (
        (rotated.double() - exact).abs() <= exact.abs() * torch.finfo(dtype).eps / 2 + 1e-6
    ).all()


# ---- On ranks -----------------------------------------------------------------------------------


def small_llama(tied=True, **sizes):
    torch.manual_seed(0)
    sizes = {"width": 32, "heads": 4, "layers": 4, "context": 32, "inside": 22} | sizes
    return LLAMA.Llama(tied=tied, **sizes)


@parametrize("sizes, n", [
    ({"heads": 6, "kv_heads": 3, "width": 36}, 2), ({"heads": 3, "tied": True, "width": 18}, 3),
    ({"heads": 4, "kv_heads": 4, "width": 32, "layers": 1}, 4),
], quick=2)  # fmt: skip
def test_a_norm_inside_of_attention_needs_the_sum_over_the_ranks(sizes, n):
    norms, text = load_solved_lab("head_norms"), MODELS.standard_library(20_000)
    sizes = {"context": 12} | sizes
    right, wrong = (
        launch(norms.train_with_head_norms, text, sizes, 4, complete, 3, world_size=n,
               device="cpu").values for complete in (norms.sum_norm_gradients, None)
    )  # fmt: skip
    for of in right:
        assert max(of["gaps"].values()) < EXACT and of["apart"] == 0
        assert of["split"] == pytest.approx(of["alone"], rel=EXACT)
    for of in wrong:
        assert max(of["gaps"][k] for k in of["gaps"] if k != "norms of heads") < EXACT
        assert of["gaps"]["norms of heads"] > 0.1 and of["apart"] > 1e-3


def test_sequence_parallelism_sums_a_norm_inside_of_attention_as_well():
    assert max(launch(gradients_in_pieces, world_size=2, device="cpu").values) < EXACT


def gradients_in_pieces():
    torch.set_default_dtype(torch.float64)
    sequence, norms = load_solved_lab("sequence_parallel"), load_solved_lab("head_norms")
    alone = small_llama(layers=1, qk_norm=True)
    split = sequence.parallelize_sequence(small_llama(layers=1, qk_norm=True))
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(20_000), 3, 0, 32)
    MODELS.mean_loss(alone(inputs), targets).backward()
    norms.split_cross_entropy(split(inputs), targets).backward()
    sequence.sum_partial_gradients(split)
    return max(norms.gaps_of_kinds(split, alone).values())


LIVE = [
    {"tp": 2, "cp": 2}, {"pp": 2, "zero": 1, "dp": 2}, {"cp": 2, "zero": 3, "micro_batch": 4},
    {"dp": 2, "tp": 2, "zero": 2, "recompute": "full"}, {"pp": 2, "tp": 2, "cp": 2, "zero": 1},
    {"cp": 4, "recompute": "full"},
]  # fmt: skip


@parametrize("plan", LIVE, quick=1, ids=str)
def test_a_plan_trains_a_llama_as_one_process(plan):
    plan, text = load_solved_lab("cost_model").Plan(**plan), MODELS.standard_library(20_000)
    beside = partial(PLANS.compare_with_one_process, make_model=partial(small_llama, kv_heads=2))
    run = launch(beside, plan, text, world_size=plan.ranks, device="cpu")
    assert max(run.values) < EXACT


PIECES = [("by heads", "zigzag"), ("all keys", "contiguous_places"), ("ring", "zigzag"),
          ("ring", "contiguous_places")]  # fmt: skip


@parametrize("way, layout", PIECES, quick=2)
def test_pieces_of_a_long_context_are_rotated_by_their_places(way, layout):
    labs, text = load_solved_lab("long_contexts"), MODELS.standard_library(20_000)
    beside = partial(labs.compare_with_one_process, make=partial(LLAMA.Llama, kv_heads=2))
    run = launch(beside, way, getattr(labs, layout), text, world_size=2, device="cpu")
    for ours, alone, gap in run.values:
        assert gap < EXACT
        assert ours == pytest.approx(alone, rel=EXACT)


@parametrize("stages", [2, 3], quick=1)
def test_stages_of_a_pipeline_train_a_llama_as_one_process(stages):
    run = launch(gradients_of_pipeline, stages, world_size=stages, device="cpu")
    assert max(run.values) < EXACT


def gradients_of_pipeline(stages):
    torch.set_default_dtype(torch.float64)
    pipelines, schedules = load_solved_lab("pipeline_parallel"), load_solved_lab("schedules")
    models = [small_llama(tied=False, kv_heads=2) for _ in range(2)]
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(20_000), 8, 0, 32)
    pipeline = pipelines.my_pipeline(models[0])
    actions = list(schedules.one_f_one_b(pipeline.rank, pipeline.ranks, 4))
    pipeline.step(actions, list(inputs.split(2)), list(targets.split(2)))
    MODELS.mean_loss(models[1](inputs), targets).backward()
    pairs = zip(*(model.parameters() for model in models))
    gaps = [relative_gap(p.grad, q.grad) for p, q in pairs if p.grad is not None]
    assert len(gaps) >= 3
    return max(gaps)


@parametrize("heads, kv_heads, n, qk_norm",
             [(4, 1, 2, False), (4, 1, 2, True), (8, 2, 4, False), (3, 1, 3, True)],
             quick=2)  # fmt: skip
def test_ranks_that_share_a_rotated_key_compute_as_one_process(heads, kv_heads, n, qk_norm):
    heads_lab = load_solved_lab("replicated_heads")
    make = partial(LLAMA.RotaryAttention, qk_norm=qk_norm)
    run = launch(heads_lab.try_heads, 8 * heads, heads, kv_heads, make,
                 world_size=n, device="cpu")  # fmt: skip
    assert all(of["right"] for of in run.values)


def test_ranks_that_share_a_normed_key_sum_the_gradients_of_its_norm():
    assert max(launch(gradients_of_shared_norms, world_size=4, device="cpu").values) < EXACT


def gradients_of_shared_norms():
    torch.set_default_dtype(torch.float64)
    whole = LLAMA.RotaryAttention(32, 8, 2, qk_norm=True)
    split = load_solved_lab("replicated_heads").FewHeads(whole)
    split.norm_q, split.norm_k = copy.deepcopy(whole.norm_q), copy.deepcopy(whole.norm_k)
    x, slope = torch.randn(2, 2, 5, 32).unbind()
    for attention in (whole, split):
        (attention(x) * slope).sum().backward()
    load_solved_lab("head_norms").sum_norm_gradients(split)
    return max(relative_gap(getattr(split, name).weight.grad, getattr(whole, name).weight.grad)
               for name in ("norm_q", "norm_k"))  # fmt: skip
