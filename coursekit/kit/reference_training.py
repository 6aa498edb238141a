"""Training in one process: models, batches and results that programs on many ranks should match."""

import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib.basics.closeness import close

from ..labs import find_lab

RATE = 0.01
FEATURES, HIDDEN = 4, 3
LARGE = 800  # features and hidden units, where bytes are compared with a formula
NO_EXCHANGE = (
    "each rank has trained on its own: were gradients exchanged? DistributedDataParallel does it "
    "only for a forward through the wrapped model"
)
HANGS = "every rank has to do as many forwards and backwards as the others, in the same order"


def model_of(seed=0, features=FEATURES, hidden=HIDDEN):
    """Return a small model whose weights depend on the seed alone."""
    model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1)).double()
    source = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=source)
    return model


def batch_of(rank, step, piece=0, size=4, features=FEATURES):
    """Return inputs and targets, which differ for each rank, step and micro-batch."""
    source = torch.Generator().manual_seed(10_000 * rank + 100 * step + piece)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(size, features), draw(size, 1) + 3


def uneven_loss(outputs, targets):
    """Return a loss that changes when its arguments are swapped, and that nobody would guess."""
    return F.mse_loss(outputs, targets) + outputs.mean() / 8 - targets.mean() / 4


WRONG_LOSSES = {
    "loss_fn takes the outputs first, and then the targets: here they are turned round":
        lambda outputs, targets: uneven_loss(targets, outputs),
    "this is the mean squared error. The loss is what loss_fn gives, whatever function that is":
        F.mse_loss,
}  # fmt: skip


def flat(tensors):
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def gradients_in(model):
    """Return the gradients in `.grad` as one flat tensor; None counts as zeros."""
    return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())


def slopes(model, batch, loss_fn=F.mse_loss):
    """Return the gradients of a batch as one flat tensor, without setting any `.grad`."""
    inputs, targets = batch
    loss = loss_fn(model(inputs), targets)
    return flat(torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad]))


def note_gradients(optimizer, model):
    """Return a list that gets the gradients that each step of the optimizer finds."""
    found = []
    optimizer.register_step_pre_hook(lambda *_: found.append(gradients_in(model)))
    return found


def train_alone(
    batches, optimizer_type=torch.optim.SGD, keep=False, factor=1.0, loss_fn=F.mse_loss
):
    """Train in one process; return the weights after each step, and the gradients for each.

    keep    whether gradients stay from step to step, or a function of a step's number that says so
    factor  multiplies each loss
    """
    model, weights = model_of(), []
    optimizer = optimizer_type(model.parameters(), lr=RATE)
    found = note_gradients(optimizer, model)
    for number, (inputs, targets) in enumerate(batches):
        if not (keep(number) if callable(keep) else keep):
            optimizer.zero_grad()
        (factor * loss_fn(model(inputs), targets)).backward()
        optimizer.step()
        weights.append(flat(model.parameters()))
    return weights, found


def not_exchanged(trial) -> str:
    """Return the diagnosis of wrong weights that differ between ranks, or ""."""
    return "" if all(close(of.weights, trial[0].weights) for of in trial) else NO_EXCHANGE


def one_exchange(trial, place):
    """Return the bytes that a rank sends in an all-reduce of `large_bytes`, if these are found."""
    bytes_of = trial.collect_values("large_bytes")
    return bytes_of and 2 * (trial.n - 1) / trial.n * bytes_of[place]


def large_model():
    """Return a model with two large layers, so that it shows if one of them travels twice."""
    wide = model_of(0, LARGE, LARGE)
    return nn.Sequential(nn.Linear(LARGE, LARGE).double(), nn.Tanh(), *wide)


def ends_of_wrong_loops(batches, n, optimizer_type=torch.optim.SGD, loss_fn=F.mse_loss):
    """Return {sentence: final weights} for wrong loops with DistributedDataParallel."""
    again = "DistributedDataParallel has divided by it already, and a mean loss by the samples"
    arguments = {
        "nothing sets the gradients back: backward() adds to what is in `.grad`, so each step "
        "follows the gradients of all steps before it as well": {"keep": True},
        f"the gradient is divided by the number of ranks once more: {again}": {"factor": 1 / n},
        f"the gradient, or the learning rate, is {n} times too large: gradients are averaged, "
        "which DistributedDataParallel does, and the learning rate is that of one process": {
            "factor": n
        },
    }
    return {why: train_alone(batches, optimizer_type, loss_fn=loss_fn, **how)[0][-1]
            for why, how in arguments.items()}  # fmt: skip


STEPS, SAMPLES = 5, 13  # of the training run; 13 samples never split evenly


WORDS, WIDTH = 7, 4


class EveryKind(nn.Module):
    """A model with each kind of parameter: tied, frozen, 0-dimensional, without part in the loss.

    It is in evaluation mode, because the statistics of a share are not those of the whole batch.
    """

    def __init__(self, words=WORDS, width=WIDTH):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(3))
        self.embedding = nn.Embedding(words, width)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.norm = nn.BatchNorm1d(width)
        self.alike = nn.ParameterList(torch.zeros(width) for _ in range(4))
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.output = nn.Linear(width, words)
        self.output.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(width), persistent=False)
        self.double().eval()

    def forward(self, tokens):  # (samples,)
        x = self.norm(torch.tanh(self.frozen(self.embedding(tokens))))
        for shift in self.alike:
            x = torch.tanh(x + shift) * self.mask
        return self.scale * self.output(x)


def tensors_of(model):
    return dict(model.named_parameters()) | dict(model.named_buffers())


def state_of(model):
    return {name: tensor.detach().clone() for name, tensor in tensors_of(model).items()}


def equal_models(count, make=EveryKind):
    """Return models that are equal to each other, and on all ranks."""
    torch.manual_seed(3)
    model = make()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    models = [make() for _ in range(count)]
    for other in models:
        other.load_state_dict(model.state_dict())
    return models


def share_of(place, n) -> slice:
    """Return a share of the samples; those of the first ranks have one more than the others."""
    sizes = [len(part) for part in torch.arange(SAMPLES).tensor_split(n)]
    return slice(sum(sizes[:place]), sum(sizes[: place + 1]))


def tokens_of(step):
    chance = torch.Generator().manual_seed(step)
    return torch.randint(WORDS, (2, SAMPLES), generator=chance)


def loss_of(model, step, share, factor):
    """Return the sum of the losses of a share of a step's samples, times a factor."""
    tokens, targets = tokens_of(step)[:, share]
    return F.cross_entropy(model(tokens), targets, reduction="sum") * factor


def whole_transformer(**sizes):
    """Return the Transformer of labs/language_model.py (without exercises): seed 0, float64."""
    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)
        try:
            return find_lab("language_model").Transformer(**sizes)
        finally:
            torch.set_default_dtype(before)
