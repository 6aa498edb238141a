# Built from chapters/ch05_memory/labs/model_shapes.py by `make build`.
"""Shapes of well-known models and figures of common GPUs, with their sources.

python labs/model_shapes.py
"""

from dataclasses import dataclass, replace

import numpy as np

# ---- Models ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer, as far as its cost depends on it. Numbers, or arrays of them.

    layers      transformer blocks
    width       of the hidden states
    heads       of queries; kv_heads: of keys and values, if fewer, so that heads share them
    mlp         width inside the MLP; is_gated: three matrices (SwiGLU) instead of two
    vocabulary  rows of the embedding; is_tied: the output uses the embedding's matrix
    context     tokens in a training sample
    positions   rows of a table of positions; 0 for rotary angles or ALiBi
    vectors     norms and biases of a block, next to its matrices, in multiples of `width` numbers;
                0 leaves them out, which is less than 0.1 % of a large model
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

    @property
    def kv_width(self):
        """The width of all keys together, or of all values."""
        return self.width * np.where(self.kv_heads, self.kv_heads, self.heads) // self.heads

    @property
    def layer_parameters(self):
        """The numbers in the matrices of one block: queries, keys, values, output, and the MLP."""
        attention = 2 * self.width**2 + 2 * self.width * self.kv_width
        return attention + (2 + self.is_gated) * self.width * self.mlp

    @property
    def embedding_parameters(self):
        return self.vocabulary * self.width

    @property
    def parameters(self):
        """The number of parameters in the whole model."""
        ends = self.embedding_parameters * (2 - self.is_tied)
        block = self.layer_parameters + self.vectors * self.width
        return self.layers * block + ends + self.positions * self.width


def llama(layers, width, heads, mlp, vocabulary, context, kv_heads=0, source="") -> Shape:
    return Shape(
        layers, width, heads, mlp, vocabulary, context, kv_heads, is_gated=True, source=source
    )


def gpt(layers, width, heads, vocabulary, context, **more) -> Shape:
    """Return a model with an MLP four times as wide, tied embeddings, and a table of positions."""
    table = {"positions": context} | more
    return Shape(layers, width, heads, 4 * width, vocabulary, context, is_tied=True, **table)


LLAMA_1, LLAMA_3 = "arXiv 2302.13971", "arXiv 2407.21783, table 3"
QWEN_2_5 = "arXiv 2412.15115, and the config.json published with it"
LLAMA_2 = "arXiv 2307.09288, and the config.json published with it"
MODELS = {
    "gpt2-xl": gpt(48, 1600, 25, 50257, 1024, source="Radford et al. 2019"),
    "gpt3-175b": gpt(96, 12288, 96, 50257, 2048, source="arXiv 2005.14165, table 2.1"),
    "mt-nlg-530b": gpt(105, 20480, 128, 50257, 2048, source="arXiv 2201.11990"),
    "bloom-176b": gpt(70, 14336, 112, 250880, 2048, positions=0, source="arXiv 2211.05100"),
    "llama-1-65b": llama(80, 8192, 64, 22016, 32000, 2048, source=LLAMA_1),
    "llama-2-7b": llama(32, 4096, 32, 11008, 32000, 4096, source=LLAMA_2),
    "llama-2-13b": llama(40, 5120, 40, 13824, 32000, 4096, source=LLAMA_2),
    "llama-2-70b": llama(80, 8192, 64, 28672, 32000, 4096, 8, source=LLAMA_2),
    "llama-3-8b": llama(32, 4096, 32, 14336, 128256, 8192, 8, source=LLAMA_3),
    "llama-3-70b": llama(80, 8192, 64, 28672, 128256, 8192, 8, source=LLAMA_3),
    "llama-3-405b": llama(126, 16384, 128, 53248, 128256, 8192, 8, source=LLAMA_3),
    "mistral-7b": llama(32, 4096, 32, 14336, 32000, 8192, 8, source="arXiv 2310.06825"),
    "qwen-2.5-72b": llama(80, 8192, 64, 29568, 152064, 4096, 8, source=QWEN_2_5),
}
ALSO = {"llama-70b": "llama-3-70b", "llama-8b": "llama-3-8b", "llama-405b": "llama-3-405b"}


def model_named(name, **changed) -> Shape:
    """Return a model by its name, with some numbers changed; raise ValueError if it is unknown."""
    name = str(name).lower()
    if ALSO.get(name, name) not in MODELS:
        raise ValueError(f"no model is called {name!r}; known are {', '.join(MODELS)}")
    return replace(MODELS[ALSO.get(name, name)], **changed)


# ---- GPUs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """A GPU in a machine of several, as its maker describes it.

    flops      floating-point operations per second, for dense products in bfloat16
    memory     bytes; bandwidth: bytes per second from and to it
    inside     bytes per second and direction to other GPUs of the machine
    across     bytes per second and direction of its share of the network cards
    reach      assumed: share of `flops` that large products reach in practice. Published runs say
               0.75 and 0.9 for two engines on the A100, 0.5 for one on the H100
    machine    GPUs per machine
    is_shared  whether they share one network card, instead of having one each
    watts      of the GPU at full load
    price      assumed: dollars per hour. The prices of clouds differ by a factor of several
    """

    flops: float
    memory: float
    bandwidth: float
    inside: float
    across: float
    reach: float = 0.6
    machine: int = 8
    is_shared: bool = False
    watts: float = 700
    price: float = 2.5
    source: str = ""


GPUS = {  # each with the network cards that its usual machine has
    "V100": Gpu(125e12, 32e9, 0.9e12, 150e9, 6.25e9, 0.7, watts=300, price=1.0,
                source="NVIDIA V100 datasheet; float16, DGX-1"),
    "A100-40GB": Gpu(312e12, 40e9, 1.555e12, 300e9, 25e9, 0.8, watts=400, price=1.5,
                     source="NVIDIA A100 datasheet, DGX A100"),
    "A100": Gpu(312e12, 80e9, 2.039e12, 300e9, 25e9, 0.8, watts=400, price=1.8,
                source="NVIDIA A100 datasheet, DGX A100"),
    "H100": Gpu(989.5e12, 80e9, 3.35e12, 450e9, 50e9, watts=700, price=2.5,
                source="NVIDIA H100 SXM datasheet, DGX H100"),
    "H200": Gpu(989.5e12, 141e9, 4.8e12, 450e9, 50e9, watts=700, price=3.0,
                source="NVIDIA H200 SXM datasheet"),
    "B200": Gpu(2250e12, 180e9, 7.7e12, 900e9, 50e9, watts=1000, price=5.0,
                source="NVIDIA DGX B200 datasheet"),
    "MI300X": Gpu(1307e12, 192e9, 5.3e12, 448e9, 50e9, watts=750, price=2.5,
                  source="AMD Instinct MI300X datasheet"),
}  # fmt: skip


def gpu_named(name) -> Gpu:
    """Return a GPU by its name, in any case; raise ValueError if it is unknown."""
    found = {known.lower(): gpu for known, gpu in GPUS.items()}
    if str(name).lower() not in found:
        raise ValueError(f"no GPU is called {name!r}; known are {', '.join(GPUS)}")
    return found[str(name).lower()]


def main():
    for name, shape in MODELS.items():
        print(f"{name:14} {float(shape.parameters) / 1e9:7.2f} billion parameters   {shape.source}")


if __name__ == "__main__":
    main()
