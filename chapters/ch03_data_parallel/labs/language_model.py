"""A small transformer that reads the source text of Python's standard library, by characters.

python labs/language_model.py
"""

import sysconfig
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHARACTERS = 128  # ASCII
CONTEXT = 64  # characters that the model sees at most


# ---- The text -------------------------------------------------------------------------------


def standard_library(characters=1_000_000) -> Tensor:
    """Read the beginning of the standard library's source, module after module, in ASCII.

    Shapes  (characters,), int64, from 0 to CHARACTERS - 1
    """
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) > 2 * characters:
            break
    letters = torch.frombuffer(text, dtype=torch.uint8)
    return letters[letters < CHARACTERS][:characters].long()


def draw_batch(text: Tensor, samples: int, step: int, context=CONTEXT) -> tuple[Tensor, Tensor]:
    """Draw a step's batch, the same on every rank: pieces of text, and each letter's next letter.

    Shapes  inputs, targets: (samples, context)
    """
    chance = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text) - context, (samples,), generator=chance, device="cpu")
    pieces = torch.stack([text[start : start + context + 1] for start in starts])
    pieces = pieces.to(torch.get_default_device())
    return pieces[:, :-1], pieces[:, 1:]


# ---- The model ------------------------------------------------------------------------------


class Attention(nn.Module):
    """Causal self-attention with several heads, in which queries may share a key and a value.

    kv_heads  heads of keys and values, each for heads / kv_heads queries in a row; as many as heads
              by default. The rows of query_key_value belong to these heads one after another:
              first the queries of one, its key, its value, then the rows of the next.
    """

    def __init__(self, width, heads, kv_heads=None):
        super().__init__()
        kv_heads = kv_heads or heads
        self.queries, self.size = heads // kv_heads, width // heads  # per key; per head
        self.query_key_value = nn.Linear(width, kv_heads * (self.queries + 2) * self.size)
        self.output = nn.Linear(width, width)

    def forward(self, x):  # (samples, context, width)
        q, k, v = self.split(self.query_key_value(x))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.queries > 1)
        return self.output(mixed.transpose(1, 2).flatten(2))  # mixed: (samples, heads, context, …)

    def split(self, parts):
        """Return queries, keys and values of the heads in `parts`: (samples, heads, context, …)."""
        parts = parts.unflatten(-1, (-1, self.queries + 2, self.size))
        q, k, v = parts.split([self.queries, 1, 1], dim=-2)  # (samples, context, kv_heads, …, size)
        return (part.flatten(2, 3).transpose(1, 2) for part in (q, k, v))


class Block(nn.Module):
    """Attention, then two linear layers, each of the two with a residual connection."""

    def __init__(self, width, heads, kv_heads=None):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(width), Attention(width, heads, kv_heads)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    """A transformer that maps letters to a score for each possible next letter.

    tied    whether the last layer has the same weights as the embedding
    Shapes  letters: (samples, context) -> (samples, context, CHARACTERS)
    """

    def __init__(self, width=64, layers=2, heads=4, context=CONTEXT, tied=False, kv_heads=None):
        super().__init__()
        self.letters = nn.Embedding(CHARACTERS, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, kv_heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, CHARACTERS, bias=False)
        for embedding in (self.letters, self.places):
            nn.init.normal_(embedding.weight, std=0.1)
        if tied:
            self.output.weight = self.letters.weight

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.output(self.norm(self.blocks(self.letters(letters) + self.places(places))))


def mean_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy per letter."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


@torch.no_grad()
def continue_text(model, beginning: str, letters=80) -> str:
    """Return the beginning and the model's continuation, which is always its likeliest letter."""
    text = torch.tensor([list(beginning.encode())])
    for _ in range(letters):
        scores = model(text[:, -CONTEXT:])[:, -1]
        text = torch.cat([text, scores.argmax(-1, keepdim=True)], dim=1)
    return bytes(text[0].tolist()).decode()


# ---- The program ----------------------------------------------------------------------------


def main(steps=300):
    torch.manual_seed(0)
    text, model = standard_library(), Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(steps):
        inputs, targets = draw_batch(text, 32, step)
        optimizer.zero_grad()
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if step % 50 == 49 or step == 0:
            print(f"step {step + 1}: loss for each letter {loss.item():.2f}", flush=True)
    print(continue_text(model, "def "))


if __name__ == "__main__":
    main()
