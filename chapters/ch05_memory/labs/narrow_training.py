"""Training whose linear layers multiply numbers of 8 or 4 bits, emulated on any device.

torchrun --nproc-per-node 2 labs/narrow_training.py
"""

import math
from statistics import fmean, stdev

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from narrow_formats import BLOCK, E4M3, FORMATS, MXFP8, Format
from torch import Tensor, nn

WIDTH, LAYERS, SAMPLES = 32, 1, 8
FIRST_RATE, SEED_OF_TUNING = 8e-3, 100
LAST = 20  # the last steps of a training run, whose losses are averaged
SEEDS = (0, 1, 2, 3, 4)
CLEAR = 5  # standard errors from which on a mean gap counts: by chance, 0.7% are with five seeds

# ---- A linear layer -------------------------------------------------------------------------


class NarrowProduct(torch.autograd.Function):
    """x times a transposed weight, with both rounded first; the backward rounds likewise.

    Each of the three products sums over rows of its two inputs, so scales belong to these rows, to
    blocks of them, or to whole tensors. Sums have the dtype of x.

    A tensor is cast twice, because the backward sums over its columns. x is cast by columns in the
    forward already, so that the backward finds narrow numbers and x itself may go.
    """

    @staticmethod
    def forward(ctx, x, weight, form: Format):  # (tokens, inputs), (outputs, inputs)
        ctx.save_for_backward(weight, *form.pack(x.T))
        ctx.form = form
        return form.cast(x) @ form.cast(weight).T

    @staticmethod
    def backward(ctx, gradient):  # (tokens, outputs)
        (weight, *packed), form = ctx.saved_tensors, ctx.form
        columns = form.unpack(*packed, gradient.dtype)
        of_x = form.cast(gradient, is_gradient=True) @ form.cast(weight.T).T
        of_weight = form.cast(gradient.T, is_gradient=True) @ columns.T
        return of_x, of_weight, None


class NarrowLinear(nn.Module):
    """A linear layer with the parameters of another one, whose products are narrow.

    Equals  the other layer for finite numbers and outside autocast, if the format has its dtype
            and no scales
    """

    def __init__(self, linear: nn.Linear, form: Format):
        super().__init__()
        self.weight, self.bias, self.form = linear.weight, linear.bias, form

    def forward(self, x):
        rows = x.unsqueeze(0).flatten(0, -2)
        y = NarrowProduct.apply(rows, self.weight, self.form)
        y = y.view(*x.shape[:-1], self.weight.shape[0])
        return y if self.bias is None else y + self.bias


def narrow_blocks(model, form: Format) -> None:
    """Give a transformer's blocks narrow linear layers; the last layer and all else stay."""
    for parent in list(model.blocks.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, NarrowLinear(child, form))


def count_saved(name, tokens=1_024, width=64) -> float:
    """Return the bytes that a layer saves for its backward, per number of its input."""
    linear, saved = nn.Linear(width, width), []
    layer = linear if name == "float32" else NarrowLinear(linear, FORMATS[name])
    x = torch.randn(tokens, width)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        layer(x)
    kept = [t for t in saved if t.data_ptr() != linear.weight.data_ptr()]
    return sum(t.nbytes for t in kept) / x.numel()


def compare_with_torch(x, weight, share) -> float | str:
    """Return how far the emulated product is from PyTorch's `scaled_mm`, relative to the largest.

    share  "tensor", "row" or BLOCK
    Returns  the first sentence of the error, where PyTorch refuses
    """
    from torch.nn.functional import ScalingType, scaled_mm

    kind = {"tensor": ScalingType.TensorWise, "row": ScalingType.RowWise,
            BLOCK: ScalingType.BlockWise1x32}[share]  # fmt: skip
    (a, of_a), (b, of_b) = (quantize_for_torch(tensor, share) for tensor in (x, weight))
    of_b = of_b.T.contiguous() if share == "row" else of_b
    try:
        theirs = scaled_mm(a, b.T, of_a, kind, of_b, kind, output_dtype=torch.float32)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return str(error).split(".")[0]
    name = {"tensor": "E4M3, per tensor", "row": "E4M3, per row", BLOCK: "MXFP8 (E4M3)"}[share]
    ours = FORMATS[name].cast(x) @ FORMATS[name].cast(weight).T
    return ((theirs - ours).abs().max() / ours.abs().max()).item()


def quantize_for_torch(x, share) -> tuple[Tensor, Tensor]:
    """Return a matrix in E4M3 and its scale, of a shape that `scaled_mm` expects."""
    if share == BLOCK:
        return MXFP8().quantize(x)
    largest = x.abs().max() if share == "tensor" else x.abs().amax(-1, keepdim=True)
    scale = largest / torch.finfo(E4M3).max
    return (x / scale).to(E4M3), scale


# ---- Training -------------------------------------------------------------------------------


def train(name, text, steps, rate, seed) -> float:
    """Train with a format, or in float32; return the mean loss of the last steps, or infinity.

    Master weights and Adam are in float32. Seeds draw weights and batches, alike for all formats.
    """
    torch.manual_seed(seed)
    model, losses = Transformer(WIDTH, LAYERS), []
    if name != "float32":
        narrow_blocks(model, FORMATS[name])
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        inputs, targets = draw_batch(text, SAMPLES, 1000 * seed + step)
        optimizer.zero_grad()
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    mean = fmean(losses[-LAST:])
    return mean if math.isfinite(mean) else math.inf


def tune_rate(name, text, steps) -> dict[float, float]:
    """Try rates: {rate: loss}. Double and halve the best one until both neighbours are worse."""
    losses, next_rates = {}, [FIRST_RATE]
    while next_rates:
        losses |= {r: train(name, text, steps, r, SEED_OF_TUNING) for r in next_rates}
        best = min(losses, key=losses.get)
        next_rates = [rate for rate in (best / 2, 2 * best) if rate not in losses]
    return losses


def compare_trainings(names, text, steps, seeds=SEEDS) -> dict[str, dict]:
    """Tune each format's rate, then train with it; ranks share the work.

    Returns  {name: {"tried": {rate: loss}, "losses": [loss of each seed]}}
    """
    tried = share_work(lambda name: tune_rate(name, text, steps), names)
    jobs = [(name, seed) for name in names for seed in seeds]
    ends = share_work(
        lambda job: train(job[0], text, steps, best_rate(tried[job[0]]), job[1]), jobs
    )
    return {name: {"tried": tried[name], "losses": [ends[name, seed] for seed in seeds]}
            for name in names}  # fmt: skip


def share_work(function, jobs) -> dict:
    """Return {job: function(job)} on all ranks, each of which does some of the jobs."""
    rank, n = dist.get_rank(), dist.get_world_size()
    found = [None] * n
    dist.all_gather_object(found, {job: function(job) for job in jobs[rank::n]})
    return {job: value for part in found for job, value in part.items()}


def best_rate(tried) -> float:
    return min(tried, key=tried.get)


# ---- Results --------------------------------------------------------------------------------


def loss_rows(trained, baseline="bfloat16") -> list[list[str]]:
    """Return a row per format: its best rate, its gaps to the baseline's losses, and a verdict.

    Gaps are those of each seed, and their mean with its standard error.
    """
    rows, base = [], trained[baseline]["losses"]
    for name, found in trained.items():
        gaps = [loss - least for loss, least in zip(found["losses"], base)]
        told, word = [f"{gap:+.3f}" for gap in gaps], describe_gaps(gaps)
        summary = "{:+.4f} ± {:.4f}".format(*mean_and_error(gaps))
        if name == baseline:
            told, summary, word = [f"({loss:.3f})" for loss in base], f"({fmean(base):.4f})", "–"
        rows.append([name, f"{best_rate(found['tried']):g}", "  ".join(told), summary, word])
    return rows


def mean_and_error(gaps) -> tuple[float, float]:
    """Return the mean of some gaps, and its standard error."""
    finite = all(map(math.isfinite, gaps))
    return fmean(gaps), stdev(gaps) / len(gaps) ** 0.5 if finite else 0.0


def describe_gaps(gaps) -> str:
    """Return "higher" or "lower" if the mean gap of two losses is, by CLEAR standard errors."""
    mean, error = mean_and_error(gaps)
    if abs(mean) <= CLEAR * error:
        return "no difference seen here"
    return "higher" if mean > 0 else "lower"


# ---- The program ----------------------------------------------------------------------------


def main(steps=60):
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    names = ["bfloat16", "E4M3, not scaled", "E4M3, per tensor", "MXFP8 (E4M3)"]
    trained = compare_trainings(names, standard_library(50_000), steps, seeds=(0,))
    if dist.get_rank() == 0:
        for name, found in trained.items():
            rate, loss = best_rate(found["tried"]), found["losses"][0]
            print(f"{name}: loss {loss:.3f} with a rate of {rate:g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
