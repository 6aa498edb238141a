# Built from chapters/ch07_tensor_parallel/labs/llama.py by `make build`. Write your answers here.
"""A transformer like the Llama models, with rotary positions, gated MLPs, and no biases.

python labs/llama.py
"""

import torch
import torch.nn.functional as F
from language_model import (
    CHARACTERS,
    CONTEXT,
    Attention,
    Block,
    Transformer,
    draw_batch,
    mean_loss,
    standard_library,
)
from torch import Tensor, nn

EPSILON = 1e-5  # of the norms

# ---- Rotary positions -----------------------------------------------------------------------


def rotate(x: Tensor, places: Tensor, base=10_000.0) -> Tensor:
    """Exercise 7.12. Return x with each pair of numbers rotated by an angle of its place.

    Number i of the first half of a head and number i of the second half are a pair. At place p it
    is rotated by the angle p * base ** (-2 i / size), which is computed in float64. The rotation
    itself is computed in at least float32, and its result is rounded to the dtype of x once.

    places  of the tokens in the whole context: of a piece, they need not begin with 0
    Shapes  x: (…, places, size), where size is even; places: (places,), int64 -> a new tensor like
            x, with its dtype
    Source  Su et al. 2021, "RoFormer"; the pairs are those of the transformers package
    """
    ...  # your code here


class RotaryAttention(Attention):
    """Attention without biases, which rotates queries and keys by their places.

    places   in the whole context, of the tokens that it gets; None if these are 0, 1, 2, …
    qk_norm  whether each head's queries and keys are normalised before that. All heads share the
             weights: where ranks have some of the heads, sum their gradients (head_norms.py)
    """

    def __init__(self, width, heads, kv_heads=None, qk_norm=False):
        super().__init__(width, heads, kv_heads)
        self.query_key_value.bias = self.output.bias = None
        self.places, size = None, self.size
        self.norm_q = nn.RMSNorm(size, eps=EPSILON) if qk_norm else nn.Identity()
        self.norm_k = nn.RMSNorm(size, eps=EPSILON) if qk_norm else nn.Identity()

    def split(self, parts):
        q, k, v = super().split(parts)
        q, k = self.rotate(self.norm_q(q)), self.rotate(self.norm_k(k))
        return q, k, v.clone()  # a view of `parts` would keep all of it for the backward

    def rotate(self, x):
        """Rotate the queries or keys of this attention's places: (samples, heads, places, size)."""
        places = torch.arange(x.shape[2]) if self.places is None else self.places
        return rotate(x, places.to(x.device))


# ---- The model ------------------------------------------------------------------------------


class SwiGLU(nn.Module):
    """The product silu(gate) * up, where gate and up take turns in the input.

    Shapes  (…, 2 * inside): gate 0, up 0, gate 1, up 1, … -> (…, inside)
    """

    def forward(self, x):
        gate, up = x.unflatten(-1, (-1, 2)).unbind(-1)
        return F.silu(gate) * up


def gated_mlp(width, inside) -> nn.Sequential:
    """Return an MLP of three matrices, of which the first layer has two: its rows take turns."""
    up, down = nn.Linear(width, 2 * inside, bias=False), nn.Linear(inside, width, bias=False)
    return nn.Sequential(up, SwiGLU(), down)


class LlamaBlock(Block):
    """A block with RMSNorm, rotary attention and a gated MLP, in which no layer has a bias.

    inside  width in the MLP; without it 8/3 of the block's, which makes as many parameters as in a
            plain MLP that is four times as wide
    """

    def __init__(self, width, heads, kv_heads=None, inside=None, qk_norm=False):
        nn.Module.__init__(self)
        self.norm_1 = nn.RMSNorm(width, eps=EPSILON)
        self.attention = RotaryAttention(width, heads, kv_heads, qk_norm)
        self.norm_2 = nn.RMSNorm(width, eps=EPSILON)
        self.mlp = gated_mlp(width, inside or 8 * width // 3)


class Llama(Transformer):
    """A transformer that maps letters to scores, as the course's, but made of LlamaBlocks.

    With the same weights it is transformers.LlamaForCausalLM with rms_norm_eps 1e-5 and rope_theta
    1e4; with qk_norm, Qwen3ForCausalLM with these and with head_dim = width / heads.

    places   None: there is no table of positions
    context  for which it is trained
    Shapes   letters: (samples, context) -> (samples, context, CHARACTERS)
    """

    def __init__(
        self, width=64, layers=2, heads=4, context=CONTEXT, tied=False, kv_heads=None, inside=None,
        qk_norm=False,
    ):  # fmt: skip
        nn.Module.__init__(self)
        self.letters, self.places = nn.Embedding(CHARACTERS, width), None
        self.context = context
        blocks = (LlamaBlock(width, heads, kv_heads, inside, qk_norm) for _ in range(layers))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.RMSNorm(width, eps=EPSILON)
        self.output = nn.Linear(width, CHARACTERS, bias=False)
        nn.init.normal_(self.letters.weight, std=0.1)
        if tied:
            self.output.weight = self.letters.weight

    def forward(self, letters):
        return self.output(self.norm(self.blocks(self.letters(letters))))


# ---- The program ----------------------------------------------------------------------------


def make_model(places=None) -> Llama:
    """Return a small Llama, always the same one, whose attention counts places as given."""
    torch.manual_seed(0)
    model = Llama(kv_heads=2)
    for block in model.blocks:
        block.attention.places = places
    return model


def train(model, text, steps, samples=16) -> list[float]:
    """Train with AdamW; return the loss of each step."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=5e-3), []
    for step in range(steps):
        inputs, targets = draw_batch(text, samples, step)
        optimizer.zero_grad()
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(steps=100):
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    torch.manual_seed(0)
    for model in (Transformer(kv_heads=2), make_model()):
        count = sum(p.numel() for p in model.parameters())
        *_, last = train(model, standard_library(), steps)
        print(f"{type(model).__name__:11} {count:,} parameters, loss {last:.2f}", flush=True)


if __name__ == "__main__":
    main()
