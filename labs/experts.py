# Built from chapters/ch09_three_dimensions/labs/experts.py by `make build`. Write your answers here.
"""Mixture of experts: each token goes through a few of many MLPs.

python labs/experts.py
"""

import contextlib
from math import ceil

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch import Tensor, nn

# ---- Routing tokens to experts --------------------------------------------------------------


def route(scores: Tensor, k: int, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Exercise 9.15. Return the weights of the k experts of each token, and these experts.

    The weight of an expert is its probability: the softmax of the token's scores over all experts.

    bias    one number per expert, added to the scores only where the experts are chosen
    Shapes  scores: (tokens, experts) -> weights, experts: (tokens, k), the best expert first
    Source  Fedus et al. 2021, "Switch Transformers"; the bias: Wang et al. 2024, "Auxiliary-Loss-
            Free Load Balancing"
    """
    ...  # your code here


def load_of(experts: Tensor, n: int) -> Tensor:
    """Count how often each of n experts was chosen: (tokens, k), whole numbers -> (n,)."""
    return experts.flatten().bincount(minlength=n)


def balancing_loss(scores: Tensor, experts: Tensor, group=None) -> Tensor:
    """Exercise 9.17. Return the loss that balances the experts' loads.

    It is 1 if all experts get as much as the others, and near n / k if one of the k choices of each
    token, with nearly all of its probability, is always the same expert. It is n times the
    sum, over all n experts, of two factors: the share of all choices that fell on the expert, and
    the mean of its probability. With a group, the shares are those of all its ranks' choices
    together, and the means those of this rank's tokens; without tokens they are 0, and so is the
    loss. Only the means have a gradient.

    Shapes  scores: (tokens, n); experts: (tokens, k) -> one number
    Cost    with a group, an all-reduce of n numbers
    Source  Fedus et al. 2021, "Switch Transformers", section 2.2
    """
    ...  # your code here


def router_z_loss(scores: Tensor, group=None) -> Tensor:
    """Exercise 9.16. Return the loss that keeps a router's scores small.

    It is the mean over tokens of the square of z, the logarithm of the softmax's denominator. With
    a group, the mean of its ranks' results is the mean over all tokens of the group. Its ranks may
    have different numbers of tokens, and some of them none. If none of them has any, it is 0.

    Shapes  scores: (tokens, n) -> one number
    Cost    with a group, an all-reduce of one number
    Source  Zoph et al. 2022, "ST-MoE", equation 5
    """
    ...  # your code here


def moved_bias(bias: Tensor, loads: Tensor, rate: float) -> Tensor:
    """Exercise 9.18. Return the router's bias after a step with these loads.

    The bias goes down by `rate` for each expert that had more than the mean load, goes up by `rate`
    for each that had less, and stays unchanged for one that had exactly the mean.

    Shapes  bias, loads: (experts,) -> (experts,), a new tensor
    """
    ...  # your code here


def kept(experts: Tensor, n: int, capacity: int) -> Tensor:
    """Exercise 9.19. Return which choices fit if each of n experts takes at most `capacity`.

    All first choices come before all second ones, and so on; among these, earlier tokens are first.

    Shapes  experts: (tokens, k) -> (tokens, k), of bool
    Source  Lepikhin et al. 2020, "GShard", section 2.2
    """
    ...  # your code here


# ---- The layer ------------------------------------------------------------------------------


class Router(nn.Linear):
    """A linear layer without a bias that computes in at least 32 bits, also under autocast."""

    def __init__(self, width, n):
        super().__init__(width, n, bias=False)

    def forward(self, x):
        wide = torch.promote_types(torch.promote_types(x.dtype, self.weight.dtype), torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(wide), self.weight.to(wide))


class Experts(nn.Module):
    """MLPs of one size, with two matrix products each.

    Shapes  x: (rows, width), sorted by expert; counts: (n,), how many rows each expert gets
    """

    def __init__(self, width, hidden, n):
        super().__init__()
        self.up = nn.Parameter(torch.randn(n, width, hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(n, hidden, width) / hidden**0.5)

    def forward(self, x, counts):
        parts = zip(x.split(counts.tolist()), self.up, self.down)
        return torch.cat([F.gelu(part @ up) @ down for part, up, down in parts])


class ExpertLayer(nn.Module):
    """A replacement for an MLP: a router, and n experts, of which each token gets k.

    hidden    the width inside an expert; by default 4 × width
    capacity  how many choices an expert takes, as a multiple of its share if all experts got
              equally many; None: all of them
    parts     number of parts into which the tokens are divided before the capacity applies: in one
              process, the number of ranks that it stands for
    shared    whether there is one more expert, which all tokens get
    bias      of the router: see route
    route     takes the scores, k and the bias, as route does
    mlps      the experts: takes rows, sorted by expert, and how many of them each expert gets
    scores, experts, fits  of the last forward: the router's scores and choices, and which fit
    """

    def __init__(self, width, n, k=1, hidden=None, capacity=None, parts=1, shared=False):
        super().__init__()
        self.n, self.k, self.capacity, self.parts, self.route = n, k, capacity, parts, route
        self.router = Router(width, n)
        self.mlps = Experts(width, hidden or 4 * width, n)
        self.shared = Experts(width, hidden or 4 * width, 1) if shared else None
        wide = torch.promote_types(torch.get_default_dtype(), torch.float32)
        self.register_buffer("bias", torch.zeros(n, dtype=wide))

    def _apply(self, convert, *args, **kwargs):
        """Convert the layer, except for a bias that would have 16 bits: its steps are small."""
        before, layer = self.bias, super()._apply(convert, *args, **kwargs)
        if self.bias.dtype.itemsize < 4:
            self.bias = before.to(self.bias.device)
        return layer

    def forward(self, x):
        tokens = x.flatten(0, -2)
        weights, chosen, counts = self.choose(tokens)
        y = self.mlps(tokens[chosen // self.k], counts)
        return self.combine(tokens, weights, chosen, y).view_as(x)

    def choose(self, tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Choose experts; return the choices' weights, and those that fit, sorted by expert.

        Shapes  weights: (tokens, k); chosen: (rows,), choices as numbers below tokens * k;
                counts: (n,), how many rows each expert gets
        """
        self.scores = self.router(tokens)
        weights, self.experts = self.route(self.scores, self.k, self.bias)
        self.fits = self.which_fit()
        chosen = self.fits.flatten().nonzero().flatten()
        expert_of = self.experts.flatten()[chosen]
        chosen = chosen[expert_of.argsort(stable=True)]
        return weights, chosen, load_of(expert_of, self.n)

    def which_fit(self) -> Tensor:
        """Return which of the last choices fit into the experts' capacity: (tokens, k), of bool."""
        if self.capacity is None:
            return torch.ones_like(self.experts, dtype=torch.bool)
        parts = self.experts.chunk(self.parts)
        room = ceil(self.capacity * parts[0].numel() / self.n)
        return torch.cat([kept(part, self.n, room) for part in parts])

    def combine(self, tokens, weights, chosen, y) -> Tensor:
        """Return each token's weighted sum of its experts' outputs: (rows, width) -> as tokens."""
        y = y.new_zeros(weights.numel(), y.shape[-1]).index_put((chosen,), y)
        y = y.view(*weights.shape, y.shape[-1]) * weights.unsqueeze(-1).to(y)
        return self.add_shared(tokens, y.sum(1))

    def add_shared(self, tokens, y) -> Tensor:
        """Add the shared expert's output, if there is such an expert."""
        if self.shared is None:
            return y
        return y + self.shared(tokens, torch.tensor([len(tokens)]))


# ---- Training -------------------------------------------------------------------------------


def expert_layers(model) -> list[ExpertLayer]:
    """List a model's expert layers."""
    return [module for module in model.modules() if isinstance(module, ExpertLayer)]


def make_expert_transformer(
    n, k=1, width=64, layers=2, context=64, seed=0, **options
) -> Transformer:
    """Make a transformer with expert layers instead of MLPs, the same in every process."""
    torch.manual_seed(seed)
    model = Transformer(width=width, layers=layers, context=context)
    for block in model.blocks:
        block.mlp = ExpertLayer(width, n, k, **options)
    return model


@contextlib.contextmanager
def one_thread():
    """Limit PyTorch to one thread in the block: more do not speed up products this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    model, text, steps=150, weight=0.0, rate=0.0, samples=16, z_weight=0.0
) -> tuple[list, Tensor]:
    """Train in one process; return the losses, and each step's loads: (steps, layers, experts).

    weight, z_weight  of the balancing loss and the router z-loss, in the total loss
    rate              of the change of the bias
    """
    with one_thread():
        layers, losses, loads = expert_layers(model), [], []
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for step in range(steps):
            inputs, targets = draw_batch(text, samples, step)
            loss = mean_loss(model(inputs), targets)
            losses.append(loss.item())
            balance = sum(balancing_loss(layer.scores, layer.experts) for layer in layers)
            z_loss = sum(router_z_loss(layer.scores) for layer in layers)
            optimizer.zero_grad()
            (loss + weight * balance + z_weight * z_loss).backward()
            optimizer.step()
            loads.append(torch.stack([load_of(layer.experts, layer.n) for layer in layers]))
            for layer, of_layer in zip(layers, loads[-1]):
                layer.bias = moved_bias(layer.bias, of_layer, rate)
    return losses, torch.stack(loads)


# ---- The program ----------------------------------------------------------------------------


def main(steps=150):
    text = standard_library()
    for name, options in {"alone": {}, "with the loss": {"weight": 0.1},
                          "with the bias": {"rate": 0.01}}.items():  # fmt: skip
        losses, loads = train(make_expert_transformer(8), text, steps, **options)
        shares = loads[-20:].sum(0) / loads[-20:].sum(0).sum(-1, keepdim=True)
        print(f"{name}: loss {losses[-1]:.2f}, shares of the experts in the first layer (%)",
              (100 * shares[0]).round().int().tolist(), flush=True)  # fmt: skip


if __name__ == "__main__":
    from pedagogy_lib.unwritten import misses_something

    if not misses_something(__file__):
        main()
