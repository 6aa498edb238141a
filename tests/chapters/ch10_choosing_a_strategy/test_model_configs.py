"""Shapes from configurations and modules: parameters to the last one, and clear refusals."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import needs
import pytest
import torch
from helpers import load_solved_lab
from torch import nn

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
    assert CONFIGS.shape_of_config(ALL[name]).parameters == sum(p.numel() for p in model.parameters())


@needs.mark("transformers")
@pytest.mark.parametrize("name", ALL)
def test_a_model_of_transformers_has_the_shape_of_its_configuration(name):
    """What both know: a module does not tell a latent vector from a matrix."""
    model, config = by_transformers(ALL[name]), ALL[name]
    by_config = CONFIGS.shape_of_config(config, 32)
    by_module = MODULES.shape_of_module(model, 32)
    assert fields_of(by_module) == fields_of(by_config)
