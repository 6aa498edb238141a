"""What an output layer over all stages takes, keeps and sends, next to whole layers."""

import contextlib
import time
from functools import partial
from itertools import accumulate, pairwise

import torch
import torch.distributed as dist
from language_model import mean_loss, standard_library
from pipeline_parallel import Pipeline, Stage, layers_of, my_pieces, pieces_of
from schedules import one_f_one_b
from simple_ddp import now
from torch import nn
from vocabulary_pipeline import OutputPart, VocabularyPipeline, draw_pairs, make_model
from vocabulary_schedules import time_of


def fastest(compute, rounds) -> float:
    took = []
    for _ in range(rounds):
        began = now()
        compute()
        took.append(now() - began)
    return min(took)


def layer_seconds(vocabulary, stages, sizes, rounds=8, samples=2, context=32) -> dict:
    """Return what layers take on this machine, forward and backward, in their fastest rounds.

    Returns  {"layers": of the whole model, one after another; "S", "T": of the longest part of the
             output layer}
    """
    model = make_model(vocabulary, context=context, **sizes)
    inputs, targets = draw_pairs(standard_library(20_000), samples, 0, context, vocabulary)
    x, seconds = inputs, []
    for layer in layers_of(model):
        stage = Stage(nn.Sequential(layer))

        def both_ways(stage=stage, x=x):
            y = stage.forward(0, x)
            stage.backward(0, torch.ones_like(y))

        seconds.append(fastest(both_ways, rounds))
        before, x = x, stage.forward(0, x)
    y, targets = model.norm(before).detach().flatten(0, 1), targets.flatten()
    weight = nn.Parameter(model.output.weight.detach().tensor_split(stages)[0].clone())
    part, sums = OutputPart(weight, 0, y, targets), torch.zeros(len(targets))
    share = torch.full((len(targets),), 1 / len(targets))
    return {
        "layers": seconds,
        "S": fastest(partial(OutputPart, weight, 0, y, targets), rounds),
        "T": fastest(partial(part.add_weight_gradient, sums, share), rounds),
    }


@contextlib.contextmanager
def record_span(spans, seconds, action):
    """Sleep for the rest of an action's time, and append its begin and end to `spans`."""
    began = now()
    yield
    least = time_of(seconds, action.kind, dist.get_rank()) if seconds else 0.0
    time.sleep(max(0.0, least - (now() - began)))
    spans.append((began, now()))


def run_step(rows, seconds, vocabulary=128, microbatch_samples=1, sizes=None, context=16):
    """Run a step of the spread output layer, measured as "step"; return this rank's spans.

    seconds  {kind: of an action}, which are emulated; {} for those that computing takes
    """
    from pedagogy_lib import measure

    sizes = sizes or {"blocks": len(rows)}
    pipeline = VocabularyPipeline(make_model(vocabulary, context=context, **sizes))
    row = rows[pipeline.rank]
    m = 1 + max(action.microbatch for action in row)
    parts = [part.tensor_split(m) for part in draw_pairs(
        standard_library(20_000), m * microbatch_samples, 0, context, vocabulary)]  # fmt: skip
    pipeline.step(row, *parts)
    spans = []
    pipeline.around = partial(record_span, spans, seconds)
    dist.barrier()
    with measure("step"):
        pipeline.step(row, *parts)
    return spans


def plan_bytes(ranks, microbatches, microbatch_samples, vocabulary, width, context=16) -> list:
    """Return what each rank sends in the step of run_step, in float32.

    Per token, an activation and its gradient cross each boundary; the last rank sends its output
    and one number to all others, and each of them sends back 2 * width + 3 numbers. A token's
    vector goes to rank 0 from the rank that has it, and its gradient back.
    """
    inputs, _ = draw_pairs(
        standard_library(20_000), microbatches * microbatch_samples, 0, context, vocabulary
    )
    sizes = [len(part) for part in torch.arange(vocabulary).tensor_split(ranks)]
    on_ranks = [(inputs.flatten() < end).sum().item() for end in accumulate(sizes)]
    on_ranks = [b - a for a, b in pairwise([0, *on_ranks])]
    planned = []
    for rank, mine in enumerate(on_ranks):
        is_last = rank == ranks - 1
        per_token = (rank > 0) * width + (not is_last) * (3 * width + 3)
        per_token += is_last * (ranks - 1) * (width + 1)
        looked_up = mine if rank else sum(on_ranks[1:])
        planned.append(4 * (per_token * inputs.numel() + width * looked_up))
    return planned


def spans_of(run) -> list:
    """Return the spans of all ranks, from the first begin on."""
    start = min(begin for of_rank in run.values for begin, _ in of_rank)
    return [[(a - start, b - start) for a, b in of_rank] for of_rank in run.values]


def run_whole(layers, microbatches, vocabulary, microbatch_samples=1, sizes=None, context=16):
    """Run a step of 1F1B with whole layers, `layers` of them on each stage, measured as "step"."""
    from pedagogy_lib import measure

    model = make_model(vocabulary, context=context, **(sizes or {}))
    pieces = my_pieces(pieces_of(layers_of(model), layers))
    width = model.places.weight.shape[1]
    del model
    pipeline = Pipeline([Stage(piece) for piece in pieces], mean_loss, width)
    del pieces
    row = list(one_f_one_b(pipeline.rank, pipeline.ranks, microbatches))
    parts = [part.tensor_split(microbatches) for part in draw_pairs(
        standard_library(20_000), microbatches * microbatch_samples, 0, context,
        vocabulary)]  # fmt: skip
    pipeline.step(row, *parts)
    dist.barrier()
    with measure("step"):
        pipeline.step(row, *parts)
