# Built from chapters/ch05_memory/labs/model_shapes.py by `make build`.
"""Shapes of well-known models, with their sources; the figures of GPUs are those of labs/gpus.py.

python labs/model_shapes.py
"""

from dataclasses import dataclass, replace

import numpy as np
from gpus import GPUS, Gpu, gpu_named

__all__ = ["GPUS", "MODELS", "Gpu", "Shape", "gpt", "gpu_named", "llama", "model_named"]


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer, as far as its cost depends on it. Numbers, or arrays of them.

    layers      transformer blocks
    width       of the hidden states
    heads       of queries; kv_heads: of keys and values, if fewer, so that heads share them
    mlp         width inside the MLP of a block without experts, if there are such blocks;
                is_gated: three matrices (SwiGLU) instead of two, in every MLP and expert
    vocabulary  rows of the embedding; is_tied: the output uses the embedding's matrix
    context     tokens in a training sample
    positions   rows of a table of positions; 0 for rotary angles or ALiBi
    vectors     numbers in a block's norms and biases, which are not in its matrices;
                end_vectors: in those before the first block and after the last
    head_width  of a query, a key or a value; 0: width / heads. In multi-head latent attention, the
                mean of a key's and a value's
    attention_parameters  numbers in the matrices of a block's attention; 0: in those of queries,
                keys, values and output, which latent attention replaces
    experts     among which a block's router chooses `chosen` for each token; 0: one MLP per block
    expert_mlp  width inside one expert; shared_mlp: inside all those together that every token uses
    expert_vectors  numbers in the biases of one expert
    dense_layers    blocks of a model with experts that have one MLP instead, often the first ones
    """

    layers: int
    width: int
    heads: int
    mlp: int
    vocabulary: int
    context: int
    kv_heads: int = 0
    is_gated: bool = False
    is_tied: bool = False
    positions: int = 0
    vectors: int = 0
    source: str = ""
    end_vectors: int = 0
    head_width: int = 0
    attention_parameters: int = 0
    experts: int = 0
    chosen: int = 0
    expert_mlp: int = 0
    shared_mlp: int = 0
    expert_vectors: int = 0
    dense_layers: int = 0

    # ---- Widths ----

    @property
    def query_width(self):
        """The width of all queries together: attention multiplies two such for each pair."""
        return np.where(self.head_width, self.heads * self.head_width, self.width)

    @property
    def kv_width(self):
        """The width of all keys together, or of all values."""
        return self.query_width * np.where(self.kv_heads, self.kv_heads, self.heads) // self.heads

    @property
    def active_mlp(self):
        """The width inside all MLPs that a token goes through in a block; a mean over blocks."""
        routed = self.chosen * self.expert_mlp + self.shared_mlp
        return self.mlp + self.expert_layers / self.layers * (routed - self.mlp)

    # ---- Matrices ----

    @property
    def attention_matrices(self):
        """The numbers in the matrices of one block's attention."""
        derived = 2 * self.width * (self.query_width + self.kv_width)
        return np.where(self.attention_parameters, self.attention_parameters, derived)

    @property
    def mlp_matrices(self):
        """The numbers in the matrices of the MLP of a block without experts."""
        return (2 + self.is_gated) * self.width * self.mlp

    @property
    def expert_matrices(self):
        """The numbers in the matrices of one expert."""
        return (2 + self.is_gated) * self.width * self.expert_mlp

    @property
    def shared_matrices(self):
        """The numbers in the matrices of the experts of a block that every token uses."""
        return (2 + self.is_gated) * self.width * self.shared_mlp

    @property
    def router_matrices(self):
        return self.width * self.experts

    @property
    def expert_layers(self):
        """How many blocks have experts."""
        return np.where(self.experts, self.layers - self.dense_layers, 0)

    def sum_matrices(self, experts):
        """Return the numbers in the matrices of all blocks, of each router's so many experts."""
        routed = experts * self.expert_matrices + self.shared_matrices + self.router_matrices
        mlps = (self.layers - self.expert_layers) * self.mlp_matrices + self.expert_layers * routed
        return self.layers * self.attention_matrices + mlps

    @property
    def layer_parameters(self):
        """The numbers in the matrices of a block; a mean over blocks."""
        return self.sum_matrices(self.experts) / self.layers

    @property
    def active_layer_parameters(self):
        """The numbers in the matrices of a block that one token uses; a mean over blocks."""
        return self.sum_matrices(self.chosen) / self.layers

    # ---- The whole model ----

    @property
    def embedding_parameters(self):
        return self.vocabulary * self.width

    def count_parameters(self, experts):
        """Return the parameters of the whole model, of each router's so many experts."""
        ends = self.embedding_parameters * (2 - self.is_tied) + self.positions * self.width
        vectors = self.layers * self.vectors + self.expert_layers * experts * self.expert_vectors
        return self.sum_matrices(experts) + vectors + ends + self.end_vectors

    @property
    def parameters(self):
        """The number of parameters in the whole model."""
        return self.count_parameters(self.experts)

    @property
    def active_parameters(self):
        """The number of parameters that one token uses, of which experts are a part."""
        return self.count_parameters(self.chosen)


# ---- Well-known models ----------------------------------------------------------------------


def llama(layers, width, heads, mlp, vocabulary, context, kv_heads=0, biases=0, **more) -> Shape:
    """Return a model like Llama: gated MLPs, RMSNorm, rotary angles.

    biases  numbers per block in biases and other norms, which Llama does not have
    """
    vectors = {"vectors": 2 * width + biases, "end_vectors": width}
    return Shape(
        layers, width, heads, mlp, vocabulary, context, kv_heads, is_gated=True, **vectors | more
    )


def gpt(layers, width, heads, vocabulary, context, **more) -> Shape:
    """Return a model like GPT-2: an MLP four times as wide, tied embeddings, a table of positions.

    It has biases everywhere, and LayerNorm.
    """
    rest = {"positions": context, "vectors": 13 * width, "end_vectors": 2 * width} | more
    return Shape(layers, width, heads, 4 * width, vocabulary, context, is_tied=True, **rest)


def latent_attention(width, heads, query_rank, key_rank=512, rotary=64, size=128) -> dict:
    """Return the fields of multi-head latent attention, as DeepSeek-V3 has it.

    query_rank  width of the vector that queries are computed from; key_rank: the one of keys and
                values
    rotary      numbers of a query and of a key that get rotary angles, in addition to `size`
    Source      arXiv 2405.04434, section 2.1
    """
    down = width * (query_rank + key_rank + rotary)
    up = query_rank * heads * (size + rotary) + key_rank * heads * 2 * size
    return {
        "attention_parameters": down + up + heads * size * width,
        "head_width": (size + rotary + size) // 2,
        "vectors": 2 * width + query_rank + key_rank,
    }


LLAMA_1, LLAMA_3 = "arXiv 2302.13971", "arXiv 2407.21783, table 3"
LLAMA_2 = "arXiv 2307.09288, and the config.json published with it"
QWEN_2_5 = "arXiv 2412.15115, and the config.json published with it"
QWEN_3 = "arXiv 2505.09388, tables 1 and 2, and the config.json published with it"
QK_NORMS = 2 * 128  # numbers in the norms of a query's and a key's head
MODELS = {
    "gpt2-xl": gpt(48, 1600, 25, 50257, 1024, source="Radford et al. 2019"),
    "gpt3-175b": gpt(96, 12288, 96, 50257, 2048, source="arXiv 2005.14165, table 2.1"),
    "mt-nlg-530b": gpt(105, 20480, 128, 50257, 2048, source="arXiv 2201.11990"),
    "bloom-176b": gpt(70, 14336, 112, 250880, 2048, positions=0, end_vectors=4 * 14336,
                      source="arXiv 2211.05100"),
    "llama-1-65b": llama(80, 8192, 64, 22016, 32000, 2048, source=LLAMA_1),
    "llama-2-7b": llama(32, 4096, 32, 11008, 32000, 4096, source=LLAMA_2),
    "llama-2-13b": llama(40, 5120, 40, 13824, 32000, 4096, source=LLAMA_2),
    "llama-2-70b": llama(80, 8192, 64, 28672, 32000, 4096, 8, source=LLAMA_2),
    "llama-3-8b": llama(32, 4096, 32, 14336, 128256, 8192, 8, source=LLAMA_3),
    "llama-3-70b": llama(80, 8192, 64, 28672, 128256, 8192, 8, source=LLAMA_3),
    "llama-3-405b": llama(126, 16384, 128, 53248, 128256, 8192, 8, source=LLAMA_3),
    "mistral-7b": llama(32, 4096, 32, 14336, 32000, 8192, 8, source="arXiv 2310.06825"),
    "qwen-2.5-72b": llama(80, 8192, 64, 29568, 152064, 4096, 8, biases=8192 + 2 * 1024,
                          source=QWEN_2_5),
    "qwen-3-8b": llama(36, 4096, 32, 12288, 151936, 4096, 8, QK_NORMS, source=QWEN_3),
    "qwen-3-32b": llama(64, 5120, 64, 25600, 151936, 4096, 8, QK_NORMS, head_width=128,
                        source=QWEN_3),
    "gemma-3-27b": llama(62, 5376, 32, 21504, 262208, 8192, 16, 2 * 5376 + QK_NORMS,
                         head_width=128, is_tied=True, source="arXiv 2503.19786, and config.json"),
    "mixtral-8x7b": llama(32, 4096, 32, 0, 32000, 8192, 8, experts=8, chosen=2, expert_mlp=14336,
                          source="arXiv 2401.04088, table 1"),
    "qwen-3-30b-a3b": llama(48, 2048, 32, 0, 151936, 4096, 4, QK_NORMS, head_width=128,
                            experts=128, chosen=8, expert_mlp=768, source=QWEN_3),
    "qwen-3-235b-a22b": llama(94, 4096, 64, 0, 151936, 4096, 4, QK_NORMS, head_width=128,
                              experts=128, chosen=8, expert_mlp=1536, source=QWEN_3),
    "deepseek-v3": llama(61, 7168, 128, 18432, 129280, 4096, experts=256, chosen=8,
                         expert_mlp=2048, shared_mlp=2048, dense_layers=3,
                         **latent_attention(7168, 128, 1536), source="arXiv 2412.19437"),
    "kimi-k2": llama(61, 7168, 64, 18432, 163840, 4096, experts=384, chosen=8,
                     expert_mlp=2048, shared_mlp=2048, dense_layers=1,
                     **latent_attention(7168, 64, 1536), source="arXiv 2507.20534"),
    "glm-4.5": llama(92, 5120, 96, 12288, 151552, 4096, 8, 14336 + QK_NORMS, head_width=128,
                     experts=160, chosen=8, expert_mlp=1536, shared_mlp=1536, dense_layers=3,
                     source="arXiv 2508.06471, table 1, and config.json"),
    "gpt-oss-120b": llama(36, 2880, 64, 0, 201088, 4096, 8, 64 * 64 + 1024 + 2880 + 64 + 128,
                          head_width=64, experts=128, chosen=4, expert_mlp=2880,
                          expert_vectors=3 * 2880, source="arXiv 2508.10925, and config.json"),
    "llama-4-maverick": llama(48, 5120, 40, 16384, 202048, 8192, 8, head_width=128, experts=128,
                              chosen=1, expert_mlp=8192, shared_mlp=8192, dense_layers=24,
                              source="its config.json"),
}  # fmt: skip
ALSO = {"llama-70b": "llama-3-70b", "llama-8b": "llama-3-8b", "llama-405b": "llama-3-405b"}


def model_named(name, **changed) -> Shape:
    """Return a model by its name, with some numbers changed; raise ValueError if it is unknown."""
    name = str(name).lower()
    if ALSO.get(name, name) not in MODELS:
        raise ValueError(f"no model is called {name!r}; known are {', '.join(MODELS)}")
    return replace(MODELS[ALSO.get(name, name)], **changed)


def main():
    for name, shape in MODELS.items():
        total, active = (float(x) / 1e9 for x in (shape.parameters, shape.active_parameters))
        uses = f" (a token uses {active:.2f})" if active < total else ""
        print(f"{name:16} {total:7.2f} billion parameters{uses}   {shape.source}")


if __name__ == "__main__":
    main()
