"""Shapes from configurations and modules: parameters to the last one, and clear refusals."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import needs
import numpy as np
import pytest
import torch
from helpers import load_solved_lab
from torch import nn

from pedagogy_lib import launch

CONFIGS, MODULES, OWN, SHAPES = map(
    load_solved_lab, ("model_configs", "model_modules", "own_models", "model_shapes")
)
MODELS, LLAMA, EXPERTS = map(load_solved_lab, ("language_model", "llama", "experts"))
PUBLISHED = json.loads((Path(__file__).parent / "model_totals.json").read_text())


def fields_of(shape) -> dict:
    """Return a shape's fields but for its source; each lab has classes of its own."""
    return asdict(shape) | {"source": ""}


# ---- Published totals -----------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_configurations_have_as_many_parameters_as_published(name):
    """Of those of DeepSeek-V3, some are biases of routers, which are no parameters: no gradient."""
    model = PUBLISHED[name]
    shape = CONFIGS.shape_of_config(model["config"])
    assert int(shape.parameters) + model.get("untrained", 0) == model["total"]
    if "active" in model:
        assert float(shape.active_parameters) == pytest.approx(model["active"], rel=0.02)
    else:
        assert shape.active_parameters == shape.parameters


@pytest.mark.parametrize("name", [name for name in PUBLISHED if "named" in PUBLISHED[name]])
def test_a_named_model_is_that_of_its_configuration(name):
    named = SHAPES.model_named(PUBLISHED[name]["named"], context=1)
    assert fields_of(CONFIGS.shape_of_config(PUBLISHED[name]["config"], 1)) == fields_of(named)


COUNTED = (
    "query_width", "kv_width", "active_mlp", "attention_matrices", "mlp_matrices",
    "expert_matrices", "shared_matrices", "router_matrices", "expert_layers", "layer_parameters",
    "active_layer_parameters", "embedding_parameters", "parameters", "active_parameters",
)  # fmt: skip


def test_a_shape_of_arrays_counts_as_its_shapes_do():
    shapes = list(SHAPES.MODELS.values())
    columns = zip(*(asdict(shape).values() for shape in shapes))
    together = SHAPES.Shape(*map(np.array, columns))
    for name in COUNTED:
        found = getattr(together, name)
        assert found.tolist() == [float(getattr(shape, name)) for shape in shapes], name


def test_parts_of_a_model_add_up():
    shape = SHAPES.model_named("deepseek-v3")
    dense, sparse = 3, 58
    experts = 256 * shape.expert_matrices + shape.shared_matrices + shape.router_matrices
    blocks = 61 * shape.attention_matrices + dense * shape.mlp_matrices + sparse * experts
    assert shape.expert_matrices == 3 * 7168 * 2048
    assert shape.layer_parameters * 61 == pytest.approx(float(blocks), rel=1e-12)
    assert shape.parameters == blocks + 61 * (2 * 7168 + 1536 + 512) + 7168 + 2 * 129280 * 7168
    unused = sparse * (256 - 8) * shape.expert_matrices
    assert shape.parameters - shape.active_parameters == unused
    assert shape.query_width == 128 * (192 + 128) // 2
    assert float(shape.active_mlp) == pytest.approx((dense * 18432 + sparse * 9 * 2048) / 61)


BILLIONS = {  # of parameters, and of those that a token uses, as their makers say
    "qwen-3-32b": (32.8, 32.8), "qwen-3-30b-a3b": (30.5, 3.3), "kimi-k2": (1030, 32.6),
    "llama-4-maverick": (400, 17), "gemma-3-27b": (27.0, 27.0),
}  # fmt: skip


@pytest.mark.parametrize("name", BILLIONS)
def test_other_named_models_are_as_large_as_their_makers_say(name):
    shape = SHAPES.model_named(name)
    found = float(shape.parameters) / 1e9, float(shape.active_parameters) / 1e9
    assert found == pytest.approx(BILLIONS[name], rel=0.02)


def test_glm_counts_its_layer_of_further_tokens_but_not_its_ends():
    """According to arXiv 2508.06471, table 1: 355 billion, of which a token uses 32 billion."""
    shape = SHAPES.model_named("glm-4.5")
    more = 2 * shape.width**2 + shape.layer_parameters  # a layer, and a matrix that joins two
    ends = 2 * shape.embedding_parameters
    assert float(shape.parameters + more - ends) / 1e9 == pytest.approx(355, rel=0.002)
    assert float(shape.active_parameters - ends) / 1e9 == pytest.approx(32, rel=0.01)


# ---- Against transformers -------------------------------------------------------------------

SMALL = {
    "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
}  # fmt: skip
TIED, BIASED = {"tie_word_embeddings": True}, {"attention_bias": True}
UNGROUPED = SMALL | {"num_key_value_heads": None}
OF_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 20}
LATENT = SMALL | OF_EXPERTS | {
    "n_routed_experts": 5, "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": 14,
    "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7,
    "num_key_value_heads": 6, "n_group": 1, "topk_group": 1,
}  # fmt: skip
QWEN_MOE, MIXED = SMALL | OF_EXPERTS | {"num_experts": 7}, {"num_local_experts": 4}
LLAMA_4 = SMALL | MIXED | {"intermediate_size_mlp": 50, "num_experts_per_tok": 1, "head_dim": 8}
GLM = SMALL | OF_EXPERTS | {"n_routed_experts": 6, "n_shared_experts": 1, "head_dim": 10,
                            "first_k_dense_replace": 2}  # fmt: skip
ODD = {  # legal configurations that no published model has
    "llama": SMALL,
    "llama, all biased": SMALL | BIASED | TIED | {"mlp_bias": True, "head_dim": 10},
    "llama, one head of keys": SMALL | {"num_key_value_heads": 1},
    "llama, no grouped heads": UNGROUPED,
    "mistral": SMALL | {"head_dim": 12},
    "qwen2": SMALL | TIED,
    "qwen3": SMALL | {"head_dim": 16},
    "qwen3, biased": SMALL | BIASED | {"head_dim": 8},
    "gemma": SMALL | {"head_dim": 20},
    "gemma, untied": SMALL | BIASED | {"head_dim": 8, "tie_word_embeddings": False},
    "gemma2": SMALL,
    "gemma3_text": SMALL | BIASED,
    "gemma3_text, defaults": {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2},
    "gpt_neox": UNGROUPED,
    "gpt_neox, tied": UNGROUPED | TIED | {"attention_bias": False},
    "mixtral": SMALL | MIXED | {"num_experts_per_tok": 2},
    "qwen3_moe": QWEN_MOE | {"head_dim": 8},
    "qwen3_moe, every 2nd": QWEN_MOE | {"decoder_sparse_step": 2, "head_dim": 12},
    "qwen3_moe, listed": QWEN_MOE | BIASED | {"mlp_only_layers": [0, 2], "head_dim": 8},
    "deepseek_v2": LATENT,
    "deepseek_v2, whole queries": LATENT | {"q_lora_rank": None},
    "deepseek_v2, biased": LATENT | BIASED | {"first_k_dense_replace": 0},
    "deepseek_v3": LATENT | TIED,
    "deepseek_v3, dense": LATENT | {"first_k_dense_replace": 3},
    "glm4_moe": GLM,
    "glm4_moe, norms": GLM | BIASED | {"use_qk_norm": True},
    "gpt_oss": SMALL | MIXED | {"head_dim": 8, "num_experts_per_tok": 3},
    "gpt_oss, fewer biases": SMALL | MIXED | {"head_dim": 12, "num_experts_per_tok": 3,
                                              "attention_bias": False},
    "llama4_text": LLAMA_4,
    "llama4_text, every 2nd": LLAMA_4 | BIASED | {"interleave_moe_layer_step": 2},
}  # fmt: skip
ALL = {name: {"model_type": name.partition(",")[0]} | config for name, config in ODD.items()} | {
    name: model["config"] for name, model in PUBLISHED.items()
}


def by_transformers(config) -> nn.Module:
    """Return the model that `transformers` makes, without memory for its numbers."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))


@needs.mark("transformers")
@pytest.mark.parametrize("name", ALL)
def test_parameters_are_those_of_transformers(name):
    model = by_transformers(ALL[name])
    assert CONFIGS.shape_of_config(ALL[name]).parameters == sum(
        p.numel() for p in model.parameters()
    )


@needs.mark("transformers")
@pytest.mark.parametrize("name", ALL)
def test_a_model_of_transformers_has_the_shape_of_its_configuration(name):
    """What both know: a module does not tell a latent vector from a matrix."""
    model, config = by_transformers(ALL[name]), ALL[name]
    by_config = CONFIGS.shape_of_config(config, 32)
    by_module = MODULES.shape_of_module(model, 32)
    assert fields_of(by_module) == fields_of(by_config)


# ---- Modules --------------------------------------------------------------------------------


def count(model) -> int:
    return sum(p.numel() for p in model.parameters())


COURSE = {  # name: (how it is made, the fields that it must have)
    "the course's": (partial(MODELS.Transformer, 48, 3, 6, 20), {"heads": 6, "mlp": 192}),
    "the course's, tied": (
        partial(MODELS.Transformer, 48, 3, 6, 20, True, 2), {"is_tied": True, "kv_heads": 2}
    ),
    "a Llama": (
        partial(LLAMA.Llama, 48, 3, 6, 20, False, 3, 50),
        {"is_gated": True, "kv_heads": 3, "mlp": 50, "positions": 0, "attention_parameters": 0},
    ),
    "with experts": (
        partial(EXPERTS.make_expert_transformer, 5, 2, width=48, layers=3, context=20, hidden=30),
        {"experts": 5, "chosen": 2, "expert_mlp": 30, "shared_mlp": 0, "dense_layers": 0},
    ),
    "with a shared expert": (
        partial(EXPERTS.make_expert_transformer, 4, 1, width=48, layers=2, context=20, shared=True),
        {"experts": 4, "chosen": 1, "expert_mlp": 192, "shared_mlp": 192},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COURSE)
def test_the_courses_models_are_understood(name):
    make, fields = COURSE[name]
    shape = MODULES.shape_of_module(make(), 20)
    assert shape.parameters == count(make())
    assert fields == {name: getattr(shape, name) for name in fields}


def test_a_layer_with_experts_is_counted_as_its_matrices():
    shape = MODULES.shape_of_module(COURSE["with experts"][0](), 20)
    assert shape.expert_matrices == 2 * 48 * 30
    assert shape.router_matrices == 5 * 48
    assert shape.parameters - shape.active_parameters == 3 * 3 * 2 * 48 * 30


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))


class MultiHeadAttention(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.num_heads, self.heads = count, nn.ModuleList()
        self.heads.extend(Head(width, width // count) for _ in range(count))
        self.proj = nn.Linear(width, width)


class MixtureOfExperts(nn.Module):
    """Experts in a list, a router, and an expert for all tokens."""

    def __init__(self, width):
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 10), nn.SiLU(), nn.Linear(10, width)) for _ in range(9)
        )
        self.gate, self.top_k = nn.Linear(width, 9), 3
        self.shared = nn.Sequential(nn.Linear(width, 14), nn.SiLU(), nn.Linear(14, width))


class Grouped(nn.Module):
    """Experts in parameters of three dimensions, next to their router."""

    def __init__(self, width):
        super().__init__()
        self.up_and_gate = nn.Parameter(torch.empty(6, width, 2 * 10))
        self.down, self.bias = (nn.Parameter(torch.empty(6, *of)) for of in ((10, width), (width,)))
        self.router, self.k = nn.Linear(width, 6, bias=False), 2


class PlainBlock(nn.Module):
    def __init__(self, width, feed_forward=None):
        super().__init__()
        self.sa, self.norm = MultiHeadAttention(width, 4), nn.LayerNorm(width)
        self.feed_forward = feed_forward or nn.ModuleDict(
            {"w1": nn.Linear(width, 22), "w2": nn.Linear(22, width), "w3": nn.Linear(width, 22)}
        )


class Plain(nn.Module):
    """A decoder as many write it, with a list of blocks."""

    def __init__(self, *blocks, width=16, rows=33):
        super().__init__()
        self.tokens, self.places = nn.Embedding(rows, width), nn.Embedding(12, width)
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(width)
        self.output = nn.Linear(width, rows)


def encoder_layer(width=16):
    return nn.TransformerEncoderLayer(width, 4, 28)


PLAIN = {
    "heads in a list": lambda: Plain(*(PlainBlock(16) for _ in range(3))),
    "of PyTorch": lambda: Plain(*(encoder_layer() for _ in range(5))),
    "experts in a list": lambda: Plain(*(PlainBlock(16, MixtureOfExperts(16)) for _ in range(2))),
    "grouped experts": lambda: Plain(*(PlainBlock(16, Grouped(16)) for _ in range(2))),
    "a first dense block": lambda: Plain(PlainBlock(16), PlainBlock(16, Grouped(16))),
}
SAID = {
    "heads in a list": {"layers": 3, "mlp": 22, "is_gated": True, "positions": 12, "context": 12},
    "of PyTorch": {"layers": 5, "heads": 4, "mlp": 28, "is_gated": False, "kv_heads": 0},
    "experts in a list": {"experts": 9, "chosen": 3, "expert_mlp": 10, "shared_mlp": 14,
                          "is_gated": False, "expert_vectors": 26},
    "grouped experts": {"experts": 6, "chosen": 2, "expert_mlp": 10, "shared_mlp": 0,
                        "is_gated": True, "expert_vectors": 16},
    "a first dense block": {"layers": 2, "dense_layers": 1, "mlp": 22, "experts": 6},
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_models_that_learners_write_are_understood(name):
    shape = MODULES.shape_of_module(PLAIN[name]())
    assert shape.parameters == count(PLAIN[name]())
    assert SAID[name] == {name: getattr(shape, name) for name in SAID[name]}


def shared_blocks():
    block = PlainBlock(16)
    return Plain(block, block)


def with_part(**parts):
    model = Plain(PlainBlock(16), PlainBlock(16))
    for name, value in parts.items():
        setattr(model, name, value)
    return model


def without_heads():
    model = Plain(PlainBlock(16))
    del model.blocks[0].sa.num_heads
    return model


def without_attention():
    model = Plain(PlainBlock(16))
    model.blocks[0].sa = nn.Linear(16, 16)
    return model


def uncounted():
    model = Plain(PlainBlock(16, Grouped(16)))
    del model.blocks[0].feed_forward.k
    return model


UNCLEAR = {
    "has no ModuleList or Sequential of equal blocks": lambda: nn.Linear(4, 4),
    "has no nn.Embedding": lambda: nn.Sequential(PlainBlock(16), PlainBlock(16)),
    "has no attention that can be found": without_attention,
    "the number of heads is unknown: .* num_heads": without_heads,
    "6 experts, .* an attribute top_k": uncounted,
    "how many tokens a sample has is unknown": lambda: with_part(places=None),
    "blocks differ in attention": lambda: Plain(PlainBlock(16), with_wider_heads()),
    "blocks share weights": shared_blocks,
    "which form no MLP of a model that is as wide as its embedding, 12": lambda: with_part(
        tokens=nn.Embedding(40, 12)
    ),
}


def with_wider_heads():
    block = PlainBlock(16)
    block.sa = MultiHeadAttention(16, 2)
    block.sa.proj = nn.Linear(16, 32)
    return block


@pytest.mark.parametrize("said", UNCLEAR)
def test_what_cannot_be_found_is_asked_for(said):
    with pytest.raises(ValueError, match=said) as error:
        MODULES.shape_of_module(UNCLEAR[said]())
    assert "\n" not in str(error.value)


# ---- Texts ----------------------------------------------------------------------------------

FILE = """
import torch
from torch import nn
from parts import Block

class Model(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.blocks = nn.ModuleList(Block(16) for _ in range(layers))
        self.context = 24

def make_large():
    return Model(100_000 if torch.get_default_device().type != "meta" else 7)

def make_nothing():
    return 3

def make_error():
    return Model(layers="two")

made = Model(4)
"""
PARTS = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2)
        self.up, self.down = nn.Linear(width, 40), nn.Linear(40, width)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(FILE)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "broken.py").write_text("import torch\n\ndef make(:\n")
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["Qwen3 8B"]["config"]))
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "parts", raising=False)
    return tmp_path


def test_a_text_names_a_model_a_file_or_a_program(folder):
    assert OWN.shape_from("Llama-3-8B").parameters == 8_030_261_248
    assert OWN.shape_from("llama-3-8b", context=512).context == 512
    for text in ("config.json", folder, f"{folder}/config.json"):
        assert OWN.shape_from(text).parameters == 8_190_735_360
    assert OWN.shape_from("config.json").context == 40960
    assert OWN.shape_from("config.json", 100).context == 100
    for text, layers in (("own.py:Model", 2), ("own.py:make_large", 7), ("own.py:made", 4)):
        shape = OWN.shape_from(text)
        assert (shape.layers, shape.context, shape.heads, shape.mlp) == (layers, 24, 2, 40)
        assert shape.parameters == layers * (4 * 256 + 64 + 2 * 640 + 56) + 50 * 16


REFUSED = {
    "lama": "no model is called 'lama'; known are .*config.json, or model.py:make_model",
    "no_file.py:Model": "no_file.py does not exist",
    "own.py": 'say what makes the model in own.py, as in "own.py:make_model"',
    "own.py:missing": "own.py has no missing that makes an nn.Module without arguments",
    "own.py:make_nothing": "own.py has no make_nothing that makes",
    "own.py:make_error": r"own.py:10: TypeError: 'str' object",
    "broken.py:make": r"broken.py:3: SyntaxError: ",
    "no.json": "no.json is no JSON: .*; give a model's config.json",
    "list.json": "list.json holds no entries",
    "missing.json": "missing.json cannot be read: No such file",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_names_nothing_is_refused_in_one_sentence(text, folder):
    with pytest.raises(ValueError, match=REFUSED[text]) as error:
        OWN.shape_from(text)
    assert "\n" not in str(error.value)


WRONG = {
    'has no "hidden_size"': {"hidden_size": None},
    "has the model_type 'mamba', and known are llama, .*model.py:make_model": {
        "model_type": "mamba"
    },
    "has the model_type None": {"model_type": None},
    "is for bert, which is not a decoder alone": {"model_type": "bert"},
    "is for mt5, which": {"model_type": "mt5", "is_encoder_decoder": True},
    "is for siglip_vit_model, which": {"model_type": "siglip_vit_model"},
    'is for more than text: save its "text_config"': {"text_config": {}},
    '"hidden_size" must be a whole number from 1 on, not 48.0': {"hidden_size": 48.0},
    '"vocab_size" must be a whole number from 1 on, not True': {"vocab_size": True},
    "7 heads do not divide 48": {"num_attention_heads": 7},
    "6 heads cannot share 4 heads of keys": {"num_key_value_heads": 4},
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_configuration_is_refused_in_one_sentence(said):
    with pytest.raises(ValueError, match=said) as error:
        CONFIGS.shape_of_config(SMALL | {"model_type": "llama"} | WRONG[said])
    assert "\n" not in str(error.value)


# ---- The memory of live runs ----------------------------------------------------------------

FITS, COST = map(load_solved_lab, ("what_fits", "cost_model"))
NO_GPU = SHAPES.Gpu(1e9, 1e9, 1e9, 1e9, 1e9)
SMALL_LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 170, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": MODELS.CHARACTERS,
    "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip


LIVE = {
    "as it is": {},
    "more heads": {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 6},
    "tied": {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 5,
             "tie_word_embeddings": True},
}  # fmt: skip


@pytest.mark.parametrize("name", LIVE)
def test_a_llama_takes_the_memory_that_its_configuration_predicts(name):
    """At the peak, which is before most gradients exist: parameters, optimizer states, and all."""
    config = SMALL_LLAMA | LIVE[name]
    shape = CONFIGS.shape_of_config(config)
    make = partial(LLAMA.Llama, shape.width, shape.layers, shape.heads, shape.context,
                   shape.is_tied, config["num_key_value_heads"], shape.mlp)  # fmt: skip
    plan = FITS.plan(micro_batch=8)
    measured = FITS.measure_model(plan, make, MODELS.standard_library(20_000))
    engine = FITS.keep_as_llama(FITS.COUNTED, shape, norm=2)
    told = FITS.merge_activations(COST.memory(COST.Job(shape, NO_GPU, 8, engine), plan))
    for kind in ("parameters", "optimizer_state"):
        assert told[kind] == pytest.approx(measured[kind], rel=0.001), kind
    assert FITS.total_of(told) == pytest.approx(FITS.total_of(measured), rel=0.03)


def train_by_transformers(config):
    """Train a model of `transformers` for two steps; the second one is measured, as "step"."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from pedagogy_lib import measure

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    optimizer = torch.optim.Adam(model.parameters())
    letters = torch.arange(2 * 8).view(2, 8)
    for number in range(2):
        model(input_ids=letters, labels=letters, use_cache=False).loss.backward()
        if number:
            with measure("step"):
                optimizer.step()
        optimizer.step()
    return count(model)


@needs.mark("transformers")
@pytest.mark.parametrize("name", ["llama", "gemma2", "qwen3_moe", "mixtral", "deepseek_v3"])
def test_states_of_a_live_model_are_those_that_its_configuration_predicts(name):
    """Parameters, gradients and Adam's states, in float32, next to an update."""
    shape = CONFIGS.shape_of_config(ALL[name])
    run = launch(train_by_transformers, ALL[name], world_size=1, device="cpu", timeout=120)
    (measured,) = run["step"].at_peak
    engine = COST.Engine(parameter_bytes=4, gradient_bytes=4, optimizer_bytes=8)
    told = COST.states(COST.Job(shape, NO_GPU, 2, engine), COST.Plan())
    assert run.values == [shape.parameters]
    for kind in FITS.STATES:
        assert float(told[kind]) == pytest.approx(measured[kind], rel=0.001), kind
