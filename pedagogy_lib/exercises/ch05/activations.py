"""Graphs that validation keeps (5.2), and what a block keeps for its backward (5.5)."""

import gc
import itertools
import warnings
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from ...basics.closeness import close, told_gap
from ...course.checking import Wrong, try_on_ranks
from ...course.labs import find_lab
from ...measuring.recorder import mark, measure
from ..kit.one_process import RATE, flat, gradients_in, note_gradients
from ..kit.outcomes import NO_RETURN, number_in, outcome_of
from ..kit.warming import warm_up

# ---- 5.2: training and validation --------------------------------------------------------------

SAMPLES, FEATURES, WIDTH = 128, 8, 64
A_BIT = 0.1  # of a graph: a number for each batch is no graph
# {case: (steps, validation batches, optimizer)}; memory in the first is compared with the others'
TRAININGS = {
    "3 steps, 2 validation batches": (3, 2, torch.optim.SGD),
    "7 steps, 2 validation batches": (7, 2, torch.optim.SGD),
    "3 steps, 6 validation batches, Adam": (3, 6, torch.optim.Adam),
}
TRAINING_ERRORS = {
    "does not require grad": "the backward finds no graph: no_grad() covers the training, too, or "
    "the model has stayed frozen. Only validation goes without",
    "Inference tensors cannot": "inference_mode() covers more than validation",
    "second time": "a backward goes through a graph that another has gone through already. "
    "Validation needs no backward at all",
}


def make_model():
    """Float64; its first bias is frozen."""
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
        nn.Linear(WIDTH, 1),
    )  # fmt: skip
    model[0].bias.requires_grad_(False)
    return model.double()


def make_batches(count, salt):
    source = torch.Generator().manual_seed(salt)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return [(draw(SAMPLES, FEATURES), draw(SAMPLES, 1) + 1) for _ in range(count)]


def examine_train_and_validate(answer):
    warm_up()
    run = try_on_ranks("on one rank", try_trainings, answer, world_size=1)
    needs = {}
    for case, found in zip(TRAININGS, run.values[0]):
        for judge in judge_call, judge_flags, judge_weights, judge_means, judge_gradients:
            judge(case, found)
        needs[case] = need_of(run, case)
    for case, need in needs.items():
        if need.graphs > A_BIT:
            what = (
                f"beside model and data it takes up to {need.answer:,} bytes; training alone "
                f"{need.alone:,}, of which {need.graph:,} are the graph of a forward"
            )
            raise Wrong(f"memory, {case}", what, why_graphs(*needs.values()))
        yield f"{case}: right, and up to {need.answer:,} bytes; training alone {need.alone:,}"


# ---- On the rank ---


def try_trainings(answer) -> list[SimpleNamespace]:
    """What came of each case, until one raises an exception."""
    seen = []
    for case in TRAININGS:
        seen.append(try_training(answer, case, *TRAININGS[case]))
        if seen[-1].outcome.error:
            break
    return seen


def try_training(answer, case, steps, validations, optimizer_type) -> SimpleNamespace:
    """What an answer does, and what is right; then its memory, and that of training alone."""
    batches, validation = make_batches(steps, 1), make_batches(validations, 2)
    found = SimpleNamespace(steps=steps, right=train_alone(batches, validation, optimizer_type))
    model, optimizer = start(optimizer_type)
    found.flags, found.gradients = flags_of(model), note_gradients(optimizer, model)
    with warnings.catch_warnings(), torch.enable_grad():  # which undoes what an answer sets
        warnings.filterwarnings("ignore", "Converting a tensor")  # the verdict says it better
        outcome = outcome_of(answer, model, F.mse_loss, batches, validation, optimizer)
        found.flags_after = flags_of(model)
    found.outcome = outcome._replace(value=plain(outcome.value))
    found.weights, found.kept = flat(model.parameters()), gradients_in(model)
    del model, optimizer, outcome
    if not found.outcome.error:
        for x in itertools.chain(*batches, *validation):
            mark(x, "other")  # data is no activation
        measure_training(f"alone, {case}", train, batches, None, optimizer_type)
        measure_training(f"answer, {case}", answer, batches, validation, optimizer_type)
    return found


def start(optimizer_type):
    model = make_model()
    return model, optimizer_type(model.parameters(), lr=RATE)


def measure_training(label, function, batches, validation, optimizer_type):
    model, optimizer = start(optimizer_type)
    gc.collect()
    with torch.enable_grad(), measure(label):
        function(model, F.mse_loss, batches, validation, optimizer)


def train(model, loss_fn, batches, validation, optimizer, after_step=lambda: None):
    """Without validation; the loss of each step is noted."""
    losses = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        after_step()
    return losses


def train_alone(batches, validation, optimizer_type) -> SimpleNamespace:
    """The truth.

    losses      of each step
    before      the mean loss of each validation batch before the first step: (batches,)
    validation  and after each step: (steps, batches)
    gradients   that each step finds
    """
    model, optimizer = start(optimizer_type)
    gradients, seen = note_gradients(optimizer, model), [losses_of(model, validation)]
    note = lambda: seen.append(losses_of(model, validation))  # noqa: E731
    losses = train(model, F.mse_loss, batches, None, optimizer, note)
    return SimpleNamespace(
        losses=torch.tensor(losses, dtype=torch.float64), before=seen[0],
        validation=torch.stack(seen[1:]),
        gradients=gradients, weights=flat(model.parameters()), kept=gradients_in(model),
    )  # fmt: skip


@torch.no_grad()
def losses_of(model, batches):
    """Of all batches in one forward: (batches,)."""
    inputs, targets = (torch.stack(parts) for parts in zip(*batches))
    return (model(inputs) - targets).square().mean((1, 2))


def plain(means):
    """What was returned, without graphs: a list of floats, or else a text that shows it."""
    if isinstance(means, (list, tuple)):
        if all(isinstance(mean, float) for mean in means):
            return list(means)
        kinds = ", ".join(sorted({type(mean).__name__ for mean in means}))
        return f"a {type(means).__name__} of {kinds}"
    return None if means is None else type(means).__name__


GRAD_MODE, TRAINING = "torch.is_grad_enabled()", "model.training"
FROZEN = "a parameter's requires_grad"


def flags_of(model) -> dict:
    """What validation might change for itself."""
    return {
        GRAD_MODE: torch.is_grad_enabled(),
        TRAINING: [module.training for module in model.modules()],
        FROZEN: [p.requires_grad for p in model.parameters()],
    }


# ---- Judging ---


def judge_call(case, found):
    if found.outcome.error:
        message = found.outcome.message
        known = (why for words, why in TRAINING_ERRORS.items() if words in message)
        raise Wrong(case, str(found.outcome), next(known, ""))


def judge_flags(case, found):
    for what, before in found.flags.items():
        if found.flags_after[what] != before:
            raise Wrong(case, f"afterwards {what} is not as it was", FLAGS[what])


FLAGS = {
    GRAD_MODE: "autograd is still switched off. `with torch.no_grad():` switches it on again",
    TRAINING: "model.eval() lasts: after validation, model.train() belongs to it. Without, the "
    "next step has no dropout, for example",
    FROZEN: "what validation freezes has to be trained again, and what was frozen before has to "
    "stay so",
}


def judge_weights(case, found):
    """Raise `Wrong` unless the model was trained as if there were no validation."""
    right = found.right
    if close(found.weights, right.weights):
        return
    steps = len(found.gradients)
    if steps != found.steps:
        what = f"expected {found.steps} optimizer steps, got {steps}"
        raise Wrong(case, what, "each batch has one step; validation has none: it only looks")
    what = f"after training, the weights are off by up to {told_gap(found.weights, right.weights)}"
    raise Wrong(case, what, why_weights(found.gradients, right.gradients))


def why_weights(got, right) -> str:
    if close(got[0], right[0]) and close(got[1], right[0] + right[1]):
        return "nothing sets the gradients back: each step follows those of all steps before it"
    if close(got[0], right[0]):
        return (
            "the first step is right, and the second finds other gradients: validation has added "
            "its own to `.grad`, or changed weights. It is to leave both alone"
        )
    return "training is to stay as it was: the first step finds other gradients already"


def judge_means(case, found):
    means, right = found.outcome.value, found.right.validation.mean(1)
    if means is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if isinstance(means, str):
        raise Wrong(case, f"it returned {means}", AS_FLOATS)
    if len(means) != found.steps:
        what = f"it returned {len(means)} numbers, expected {found.steps}"
        raise Wrong(case, what, "one mean after each step: append it in the loop over `batches`")
    got = torch.tensor(means, dtype=torch.float64)
    if not close(got, right):
        at = next(i for i in range(len(right)) if not close(got[i], right[i]))
        what = f"after step {at} it is {got[at]:.6f}, expected {right[at]:.6f}"
        fits = (why for why, wrong in wrong_means(found.right).items() if close(got, wrong))
        raise Wrong(case, what, next(fits, ""))


AS_FLOATS = "return a list of floats: loss.item() is one, and keeps nothing else alive"


def wrong_means(right):
    """{sentence: the numbers that this misconception gives}."""
    each, mean = right.validation, right.validation.mean(1)
    return {
        "these are the losses of training; asked are those on `validation`": right.losses,
        "this is the model before the step: validate after optimizer.step()":
            torch.cat([right.before[None], each[:-1]]).mean(1),
        "all of these are of the model as it is in the end: validate after each step":
            mean[-1].expand(len(mean)),
        "these are sums over the validation batches: divide by how many they are": each.sum(1),
        "only the last validation batch counts": each[:, -1],
        "only the last validation batch counts, divided by the number of all":
            each[:, -1] / each.shape[1],
        "only the first validation batch counts": each[:, 0],
        "losses of earlier steps are still in the list: begin a new one after each step":
            each.mean(1).cumsum(0) / torch.arange(1, len(mean) + 1),
    }  # fmt: skip


def judge_gradients(case, found):
    """Raise `Wrong` unless there are those of the last training step, or none."""
    got, right = found.kept, found.right.kept
    if got.any() and not close(got, right):
        what = f"`.grad` has norm {got.norm():.4f} in the end, after training alone "
        what += f"{right.norm():.4f}"
        raise Wrong(case, what, (
            "validation has left gradients of its own. It needs no backward: a graph is freed as "
            "soon as nobody holds it"
        ))  # fmt: skip


# ---- Memory ---


def need_of(run, case) -> SimpleNamespace:
    """Bytes beside those that are there at the start; `graphs`: how many there are too many."""
    blocks = run[f"alone, {case}"], run[f"answer, {case}"]
    at_start = [int(block.memory[0][0][1][0].sum()) for block in blocks]
    peaks = [block.peak_bytes[0] for block in blocks]
    alone, answer = (peak["total"] - before for peak, before in zip(peaks, at_start))
    graph, in_graphs = (peak["activations"] for peak in peaks)
    return SimpleNamespace(
        alone=alone, answer=answer, graph=graph, graphs=(answer - alone) / graph,
        in_graphs=in_graphs,
    )  # fmt: skip


IN_A_ROUND = (
    "with more validation batches more is kept: the graphs of all batches of a round are alive at "
    "once. A loss that has a graph holds all of it; nobody goes back through it here, so let "
    "autograd record none"
)
OVER_ROUNDS = (
    "with more steps more is kept: what is appended to `means` still has its graph, and holds it "
    "to the end. A float holds nothing"
)
BOTH = (
    "it grows with the number of steps, and also with the number of validation batches. So there "
    "are two lists to look at: what do they hold, and how long?"
)
ONE_TOO_MANY = (
    "it is about one graph too many, whatever the number of batches: a name still holds the graph "
    "of one batch while the next forward makes its own. Validation needs no graph at all"
)
NO_GRAPH = (
    "no graph is too many; something else is as large. Do all validation batches go through the "
    "model together? One at a time needs less"
)


def why_graphs(base, more_steps, more_batches) -> str:
    if all(need.in_graphs <= need.graph for need in (base, more_steps, more_batches)):
        return NO_GRAPH
    over_rounds = more_steps.graphs > base.graphs + 0.5
    in_a_round = more_batches.graphs > base.graphs + 0.5
    if over_rounds and in_a_round:
        return BOTH
    if over_rounds:
        return OVER_ROUNDS
    if in_a_round:
        return IN_A_ROUND
    return ONE_TOO_MANY if base.graphs > 0.5 else ""


# ---- 5.5: what a block keeps -------------------------------------------------------------------

# samples, context, width, heads, size; in the first, misconceptions come to different numbers
BLOCKS = [
    (3, 7, 96, 8, 4), (2, 10, 24, 2, 4), (1, 64, 64, 4, 4), (5, 1, 12, 12, 4), (3, 7, 96, 8, 8),
    (4, 33, 8, 1, 8),
]  # fmt: skip
DTYPES = {4: torch.float32, 8: torch.float64}


def examine_kept_by_block(answer):
    block_type = find_lab("language_model").Block
    for *sizes, size in BLOCKS:
        case = "samples {}, context {}, width {}, heads {}, size {}".format(*sizes, size)
        extra = {} if size == 4 else {"size": size}
        outcome = outcome_of(answer, *sizes, **extra)
        got, right = number_in(case, outcome), measured(block_type, *sizes, DTYPES[size])
        if got != right:
            what = f"expected {right:,} bytes, got {got:,.10g}"
            each = sizes[0] * sizes[1] * size
            what += f": for each letter {right / each:,g} numbers, got {got / each:,g}"
            raise Wrong(case, what, why_kept(got, right, *sizes, size))
        yield f"{case}: {right:,} bytes"


def measured(block_type, samples, context, width, heads, dtype) -> int:
    """The truth: what a block's forward gives autograd to keep, each storage once."""
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        block = block_type(width, heads).to(dtype)
        x = torch.randn(samples, context, width, dtype=dtype, requires_grad=True)
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor), lambda _: None):
        block(x)
    parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in kept}
    return sum(s.nbytes() for at, s in storages.items() if at not in parameters)


def why_kept(got, right, samples, context, width, heads, size) -> str:
    """Which misconceptions together lead to a number; "" if none do."""
    letters = samples * context
    by_paper = letters * (34 * width + 5 * heads * context)
    if got in (by_paper, by_paper * size / 2):
        return KORTHIKANTI
    if got == right + size * (12 * width**2 + 13 * width):
        return "the parameters are counted as well: they are there anyhow, for every step"
    scales = {
        "": 1,
        "this is the number of numbers: each takes `size` bytes": 1 / size,
        "`size` is not used: 4 bytes are taken for each number": 4 / size,
        "this is for one sample: each of them is kept": 1 / samples,
        "this is for one letter of each sample": 1 / context,
        "this is for one letter: there are samples * context of them": 1 / letters,
    }
    for why, scale in scales.items():
        off = (got / scale - right) / letters / size
        parts = parts_of(round(off, 6), width, heads, context)
        if parts is not None:
            return "; and ".join(filter(None, [why, *parts]))
    return ""


KORTHIKANTI = (
    "this is the formula of Korthikanti et al. for 16-bit numbers. It has dropout, and attention "
    "that keeps its scores: this block has neither"
)


def parts_of(off, width, heads, context) -> list[str] | None:
    """What is missing or too much if it is so many numbers for each letter; the fewest parts."""
    groups = off_by_width(width), off_in_attention(heads, context), OFF_IN_NORMS
    choices = itertools.product(*({"": 0, **group}.items() for group in groups))
    fits = [some for some in choices if sum(number for _, number in some) == off]
    if not fits:
        return None
    return min(([why for why, _ in some if why] for some in fits), key=len)


def off_by_width(width) -> dict[str, int]:
    """{sentence: numbers for each letter}."""
    return {
        "4 * width for each letter are missing: GELU's input, or its output, which is the last "
        "linear layer's input": -4 * width,
        "8 * width for each letter are missing: GELU's input, and its output, which is the last "
        "linear layer's input": -8 * width,
        "3 * width for each letter are missing: q, k and v; or a tensor within the MLP, which is "
        "4 * width wide, is taken to be `width`": -3 * width,
        "6 * width for each letter are missing: within the MLP, two tensors are 4 * width wide":
            -6 * width,
        "`width` for each letter is missing: a norm's input or output, one of q, k and v, or the "
        "output of attention": -width,
        "2 * width for each letter are missing: two of q, k and v; or inputs or outputs of the two "
        "norms": -2 * width,
        "`width` for each letter is too much. A tensor counts once: x is the first norm's input, "
        "and the output of attention is its output layer's input. What the block returns is kept "
        "by who needs it next": width,
        "2 * width for each letter are too much. A tensor counts once, also if two operations keep "
        "it; and a sum keeps nothing": 2 * width,
        "3 * width for each letter are too much. q, k and v are three parts of one tensor, which "
        "counts once": 3 * width,
        "4 * width for each letter are too much: GELU's output is the last linear layer's input, "
        "and counts once": 4 * width,
    }  # fmt: skip


def off_in_attention(heads, context) -> dict[str, int]:
    scores = "scaled_dot_product_attention never has them all at once"
    return {
        "the log-sum-exp is missing: a number for each letter and head": -heads,
        "the log-sum-exp has a number for each head, not only for each letter": 1 - heads,
        f"attention's scores are counted, heads * context for each letter: {scores}":
            heads * context,
        f"attention's scores are counted, and not the log-sum-exp: {scores}, and keeps a number "
        "for each letter and head to compute them again": heads * (context - 1),
        "attention's scores are counted, and what softmax makes of them: "
        f"{scores}": 2 * heads * context,
        "attention's scores are counted, and what softmax makes of them, and not the log-sum-exp: "
        f"{scores}, and keeps a number for each letter and head to compute them again":
            heads * (2 * context - 1),
    }  # fmt: skip


OFF_IN_NORMS = {
    "the norms' statistics are missing: each norm keeps two numbers for each letter": -4,
    "two of the norms' numbers are missing: there are two norms, and each keeps a mean and a "
    "1/deviation for each letter": -2,
}
