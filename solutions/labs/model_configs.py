# Built from chapters/ch10_choosing_a_strategy/labs/model_configs.py by `make build`.
"""A model's shape from the config.json that Hugging Face keeps next to its weights.

python labs/model_configs.py path/to/config.json
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from model_shapes import Shape

# ---- Entries --------------------------------------------------------------------------------


class Entries:
    """The entries of a config.json. An entry that is null counts as missing.

    Raises  ValueError, in one sentence, for a missing entry and for one of a wrong kind
    """

    def __init__(self, entries, place="the configuration"):
        if not isinstance(entries, dict):
            raise ValueError(f"{place} holds no entries: give the config.json of a model")
        self.entries, self.place = entries, place

    def __contains__(self, name):
        return self.entries.get(name) is not None

    def __getitem__(self, name) -> int:
        """Return a whole number, which is at least 1."""
        if name not in self:
            raise ValueError(
                f'{self.place} has no "{name}": add the entry, with the model\'s number'
            )
        return self.number(name, least=1)

    def number(self, name, otherwise=0, least=0) -> int:
        """Return a whole number, or `otherwise` where the entry is missing."""
        value = self.entries[name] if name in self else otherwise
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(
                f'{self.place}: "{name}" must be a whole number from {least} on, not {value!r}'
            )
        return value

    def is_set(self, name) -> bool:
        return name in self and self.entries[name] is not False

    def names(self, name) -> list:
        """Return a list, which is empty where the entry is missing."""
        found = self.entries[name] if name in self else []
        return found if isinstance(found, list) else [found]


def read_config(config) -> Entries:
    """Read a dict, a config.json, or a folder that holds one; raise ValueError otherwise."""
    if isinstance(config, dict):
        return Entries(config)
    path = Path(config)
    path = path / "config.json" if path.is_dir() else path
    try:
        return Entries(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # no JSON, no text, or no dict
        if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
            raise ValueError(f"{path} is no JSON: {error}; give a model's config.json") from None
        raise


# ---- Families -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """What a `model_type` means beyond its entries; without arguments, what "llama" means.

    norms       numbers in a block's norms, in multiples of the model's width; end_norms: in the
                norm after the last block
    qk_norm     whether a norm follows queries, and one keys; or the entry that says so
    biased      what has biases if "attention_bias" says so: queries, keys and values, "qkv"; and
                attention's output, "out"
    is_gated    whether an MLP has three matrices; mlp: the entry with the width inside it
    experts     the entry with the number of experts; expert_mlp: with the width inside one
    shared      returns the width inside all shared experts together; dense: how many layers have
                no experts
    has_sinks   whether each head has a sink, and the router and all experts have biases
    defaults    of entries that `transformers` does not write
    """

    norms: int = 2
    end_norms: int = 1
    qk_norm: bool | str = False
    biased: tuple = ("qkv", "out")
    is_gated: bool = True
    mlp: str = "intermediate_size"
    experts: str = ""
    expert_mlp: str = "moe_intermediate_size"
    shared: Callable = lambda c: 0
    dense: Callable = lambda c: 0
    has_sinks: bool = False
    defaults: dict = field(default_factory=dict)


def shared_experts(c: Entries) -> int:
    return c.number("n_shared_experts") * c["moe_intermediate_size"]


def first_layers(c: Entries) -> int:
    return c.number("first_k_dense_replace")


def without_experts(c: Entries) -> int:
    """Count the dense layers of a Qwen: those listed, and all but every n-th one."""
    step, listed = c.number("decoder_sparse_step", 1, least=1), c.names("mlp_only_layers")
    numbers = range(c["num_hidden_layers"])
    return sum(number in listed or (number + 1) % step != 0 for number in numbers)


def between_experts(c: Entries) -> int:
    """Count the dense layers of a Llama 4: all but those listed, or all but every n-th one."""
    step, layers = c.number("interleave_moe_layer_step", 1, least=1), c["num_hidden_layers"]
    return layers - (len(c.names("moe_layers")) or layers // step)


GEMMA = {"tie_word_embeddings": True, "head_dim": 256}
GEMMA_3 = GEMMA | {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
                   "max_position_embeddings": 131072}  # fmt: skip
BIASED = {"attention_bias": True}
DEEPSEEK = Family(experts="n_routed_experts", shared=shared_experts, dense=first_layers)
FAMILIES = {
    "llama": Family(),
    "mistral": Family(biased=()),
    "qwen2": Family(biased=("qkv",), defaults=BIASED),
    "qwen3": Family(qk_norm=True),
    "gemma": Family(defaults=GEMMA),
    "gemma2": Family(norms=4, defaults=GEMMA),
    "gemma3_text": Family(norms=4, qk_norm=True, defaults=GEMMA_3),
    "gpt_neox": Family(norms=4, end_norms=2, is_gated=False, defaults=BIASED | {"mlp_bias": True}),
    "mixtral": Family(biased=(), experts="num_local_experts", expert_mlp="intermediate_size"),
    "qwen3_moe": Family(qk_norm=True, experts="num_experts", dense=without_experts),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "kimi_k2": DEEPSEEK,
    "glm4_moe": Family(qk_norm="use_qk_norm", biased=("qkv",), experts="n_routed_experts",
                       shared=shared_experts, dense=first_layers),
    "gpt_oss": Family(experts="num_local_experts", expert_mlp="intermediate_size",
                      has_sinks=True, defaults=BIASED),
    "llama4_text": Family(mlp="intermediate_size_mlp", experts="num_local_experts",
                          expert_mlp="intermediate_size", dense=between_experts,
                          shared=lambda c: c["intermediate_size"]),
}  # fmt: skip
NO_DECODERS = "bert", "electra", "t5", "bart", "whisper", "vit", "clip", "swin", "wav2vec"


def family_of(c: Entries) -> tuple[Family, Entries]:
    """Return a model's family, and its entries with defaults; raise ValueError if it is unknown."""
    kind = c.entries.get("model_type")
    if "text_config" in c:
        raise ValueError(
            f'{c.place} is for more than text: save its "text_config" as a file, and give that'
        )
    if kind in FAMILIES:
        given = {name: value for name, value in c.entries.items() if value is not None}
        return FAMILIES[kind], Entries(FAMILIES[kind].defaults | given, c.place)
    if c.is_set("is_encoder_decoder") or any(word in str(kind) for word in NO_DECODERS):
        raise ValueError(
            f"{c.place} is for {kind}, which is not a decoder alone, as the cost model needs"
        )
    raise ValueError(
        f"{c.place} has the model_type {kind!r}, and known are {', '.join(FAMILIES)}: for others, "
        'give a function that makes the model, as in "model.py:make_model"'
    )


# ---- Shapes ---------------------------------------------------------------------------------


def usual_attention(c: Entries, family: Family) -> tuple[dict, int]:
    """Return the fields of attention, and the numbers in its biases, sinks and norms."""
    heads, width = c["num_attention_heads"], c["hidden_size"]
    if width % heads and "head_dim" not in c:
        raise ValueError(
            f'{c.place}: {heads} heads do not divide {width}, and no "head_dim" is set'
        )
    size, kv_heads = c.number("head_dim", width // heads), c.number("num_key_value_heads", heads)
    if heads % max(kv_heads, 1):
        raise ValueError(f"{c.place}: {heads} heads cannot share {kv_heads} heads of keys equally")
    vectors = family.has_sinks * heads
    if c.is_set("attention_bias"):
        vectors += ("qkv" in family.biased) * (heads + 2 * kv_heads) * size
        vectors += ("out" in family.biased) * width
    named = isinstance(family.qk_norm, str)
    vectors += 2 * size * (c.is_set(family.qk_norm) if named else family.qk_norm)
    kv_heads, size = 0 if kv_heads == heads else kv_heads, 0 if size * heads == width else size
    return {"kv_heads": kv_heads, "head_width": size}, vectors


def latent_attention(c: Entries) -> tuple[dict, int]:
    """Return the same of multi-head latent attention."""
    heads, width = c["num_attention_heads"], c["hidden_size"]
    rotary, plain, value = c["qk_rope_head_dim"], c["qk_nope_head_dim"], c["v_head_dim"]
    query_rank, key_rank = c.number("q_lora_rank"), c["kv_lora_rank"]
    queries = heads * (plain + rotary)
    matrices = (width + queries) * query_rank if query_rank else width * queries
    matrices += width * (key_rank + rotary) + key_rank * heads * (plain + value)
    matrices += heads * value * width
    biases = c.is_set("attention_bias") * (query_rank + key_rank + rotary + width)
    fields = {"attention_parameters": matrices, "head_width": (plain + rotary + value) / 2}
    return fields, query_rank + key_rank + biases


def mlps(c: Entries, family: Family) -> tuple[dict, int]:
    """Return the fields of MLPs and experts, and the numbers in a block's biases there."""
    layers, experts = c["num_hidden_layers"], c.number(family.experts)
    dense = min(family.dense(c), layers) if experts else layers
    inside = c[family.mlp] if dense else 0
    fields = {"mlp": inside, "is_gated": family.is_gated}
    if dense == layers:
        biases = (1 + family.is_gated) * inside + c["hidden_size"]
        return fields, biases * c.is_set("mlp_bias")
    inside = c[family.expert_mlp]
    fields |= {
        "experts": experts, "chosen": c["num_experts_per_tok"], "expert_mlp": inside,
        "shared_mlp": family.shared(c), "dense_layers": dense,
        "expert_vectors": family.has_sinks * (2 * inside + c["hidden_size"]),
    }  # fmt: skip
    return fields, family.has_sinks * experts


def shape_of_config(config, context=None) -> Shape:
    """Return the shape of a model from its config.json, from a folder with one, or from a dict.

    Its parameters are exactly those of the model that `transformers` makes of it. Layers that
    predict further tokens (multi-token prediction) are left out.

    context  tokens in a training sample; by default as many as the model is meant for
    Raises   ValueError, in one sentence, for a file, a model or an entry that it cannot use
    """
    family, c = family_of(read_config(config))
    width = c["hidden_size"]
    latent = "kv_lora_rank" in c
    attention, vectors = latent_attention(c) if latent else usual_attention(c, family)
    rest, biases = mlps(c, family)
    return Shape(
        layers=c["num_hidden_layers"], width=width, heads=c["num_attention_heads"],
        vocabulary=c["vocab_size"], context=context or c["max_position_embeddings"],
        is_tied=c.is_set("tie_word_embeddings"), source=c.place,
        vectors=family.norms * width + vectors + biases, end_vectors=family.end_norms * width,
        **attention, **rest,
    )  # fmt: skip


MIXTRAL = {  # of config.json in mistralai/Mixtral-8x7B-v0.1, what this lab reads
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip


def main():
    for config in sys.argv[1:] or [MIXTRAL]:
        try:
            shape = shape_of_config(config)
        except ValueError as error:
            print(error)
            continue
        print(f"{int(shape.parameters):,} parameters, of which a token uses "
              f"{int(shape.active_parameters):,}, in {shape.source}")  # fmt: skip


if __name__ == "__main__":
    main()
