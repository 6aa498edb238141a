# Built from chapters/ch08_pipeline_parallel/labs/vocabulary_pipeline.py by `make build`.
"""A pipeline whose embedding and output layer are cut by tokens over all stages.

torchrun --nproc-per-node 3 labs/vocabulary_pipeline.py
"""

import contextlib
import time
from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import Pipeline, Stage, even_sizes, layers_of, my_pieces, pieces_of
from schedules import one_f_one_b
from simple_ddp import now
from tensor_parallel import VocabularyEmbedding, part_of
from torch import Tensor, nn
from vocabulary_schedules import list_schedule, time_of

# ---- One stage's part of the output layer ---------------------------------------------------


class OutputPart:
    """One stage's part of the logits of a micro-batch, and what the others have to know of it.

    Each logit's exp is taken relative to the highest logit of this stage, so that no stage has to
    wait for another one before it computes.

    statistics  (3, targets): the highest logit, the sum of exp(logit - highest), and the target's
                logit, or 0 if its row is on another stage
    vectors     (targets, width): the sum of exp(logit - highest) times the logit's row of `weight`
    rows        (targets, width): the row of the target, or 0 if it is on another stage
    """

    @torch.no_grad()
    def __init__(self, weight, first, y, targets):
        self.weight, self.y = weight, y
        logits = y @ weight.T
        highest = logits.amax(-1)
        self.exp = (logits - highest[:, None]).exp()
        place = targets - first
        self.mine = (place >= 0) & (place < len(weight))
        self.place = place.where(self.mine, 0)
        picked = logits.gather(-1, self.place[:, None])[:, 0].where(self.mine, 0)
        self.statistics = torch.stack([highest, self.exp.sum(-1), picked])
        self.vectors = self.exp @ weight
        self.rows = weight[self.place].where(self.mine[:, None], 0)

    def pack(self) -> Tensor:
        """Return what the last stage needs, as one message of 2 * width + 3 numbers a target."""
        return torch.cat([self.statistics.T, self.vectors, self.rows], dim=1)

    @torch.no_grad()
    def add_weight_gradient(self, log_sums, share):
        """Add to weight.grad; `share` is each target's share of the batch's mean loss."""
        weight, highest = self.weight, self.statistics[0]
        probabilities = self.exp * ((highest - log_sums).exp() * share)[:, None]
        gradient = probabilities.T @ self.y
        gradient.index_add_(0, self.place, -self.y * (share * self.mine)[:, None])
        weight.grad = gradient if weight.grad is None else weight.grad + gradient


def merge_parts(statistics, vectors) -> tuple[Tensor, Tensor, Tensor]:
    """Exercise 8.16. Merge the stages' parts of an output layer.

    statistics  (stages, 3, targets): of each stage the highest logit, the sum of exp(logit -
                highest) over its tokens, and the target's logit, or 0 if another stage has it
    vectors     (stages, targets, width): the sum of exp(logit - highest) times the logit's row
    Returns     the loss of each target, (targets,); the logarithm of the sum of exp(logit) over all
                tokens, (targets,); the sum of probability times row over all tokens, (targets,
                width)
    Raises      nothing: no exp overflows, however large the logits are
    """
    ### BEGIN SOLUTION
    highest, sums, picked = statistics.unbind(1)
    log_sums = (highest + sums.log()).logsumexp(0)
    shares = (highest - log_sums).exp()
    mean_rows = (vectors * shares.unsqueeze(-1)).sum(0)
    return log_sums - picked.sum(0), log_sums, mean_rows
    ### END SOLUTION


# ---- The pipeline ---------------------------------------------------------------------------


class Places(nn.Module):
    """The vectors of positions, added to embedded tokens: what is left of the first layer."""

    def __init__(self, places):
        super().__init__()
        self.places = places

    def forward(self, x):  # (samples, context, width)
        return x + self.places(torch.arange(x.shape[1]))


class VocabularyPipeline(Pipeline):
    """A pipeline of a transformer that runs the rows of `vocabulary_schedules.list_schedule`.

    The embedding is looked up for all micro-batches before the first action. Messages to and from
    the last rank have tags of their own, as Gloo has them.

    Cost  per micro-batch, the last rank sends its output to all others, and one number per target;
          each other rank sends it 2 * width + 3 numbers per target
    """

    def __init__(self, model, group=None, **options):
        ranks = dist.get_world_size(group)
        self.embedding = VocabularyEmbedding(model.letters, group)
        self.output = part_of(model.output.weight, 0, group)
        self.first = sum(self.output.cut_sizes[: dist.get_rank(group)])
        sizes = even_sizes(len(model.blocks), ranks)
        sizes[-1] += 1  # the last norm
        pieces = pieces_of([*model.blocks, model.norm], sizes)
        pieces[0].insert(0, Places(model.places))
        stages = [Stage(piece) for piece in my_pieces(pieces, group)]
        super().__init__(stages, mean_loss, model.places.weight.shape[1], group, **options)
        self.last = self.ranks - 1

    def step(self, actions, inputs, targets):
        self.embedded = [self.embedding(part) for part in inputs]
        self.outputs, self.parts, self.log_sums, self.slopes = {}, {}, {}, {}
        loss = super().step(self.run_output_passes(actions), inputs, targets)
        for i, x in enumerate(self.embedded):
            slope = self.slopes.get(i, torch.empty_like(x))
            dist.broadcast(slope, group=self.group, group_src=0)
            x.backward(slope)
        return loss

    def run_output_passes(self, actions):
        """Yield the actions of the stages; those of the output layer are run here."""
        run = {"S": self.compute_part, "T": self.finish_part}
        for action in actions:
            if action.kind in run:
                run[action.kind](action)
            else:
                yield action

    def forward(self, action):
        i = action.microbatch
        x = self.receive(action) if self.rank else self.embedded[i].detach()
        with self.around(action):
            y = self.stages[0].forward(i, x)
        if self.rank < self.last:
            self.send(y, action)
            return
        self.outputs[i] = y.flatten(0, 1)
        for peer in range(self.last):
            self.begin_send(self.outputs[i], peer, tag=f"output {i}")

    def compute_part(self, action):
        """Run S: compute this rank's part of the logits, and send what it adds to the last rank."""
        i, targets = action.microbatch, self.targets[action.microbatch].flatten()
        shape = len(targets), self.width
        y = self.outputs.pop(i) if self.rank == self.last else self.get(shape, f"output {i}")
        with self.around(action):
            self.parts[i] = OutputPart(self.output, self.first, y, targets)
        if self.rank < self.last:
            self.begin_send(self.parts[i].pack(), self.last, tag=f"part {i}")

    def back(self, action, compute):
        i = action.microbatch
        slope = self.merge(i) if self.rank == self.last else self.receive(action)
        with self.around(action):
            slope = compute(i, slope)
        if self.rank:
            self.send(slope, action)
        else:
            self.slopes[i] = slope

    def merge(self, i) -> Tensor:
        """Return the gradient of the last stage's output; send the logarithms of the sums."""
        share, shape = self.share_of(i), (self.targets[i].numel(), 3 + 2 * self.width)
        packed = [self.get(shape, f"part {i}", peer) for peer in range(self.last)]
        packed = torch.stack([*packed, self.parts[i].pack()])
        statistics, vectors, rows = packed.split([3, self.width, self.width], dim=2)
        losses, self.log_sums[i], mean_rows = merge_parts(statistics.transpose(1, 2), vectors)
        for peer in range(self.last):
            self.begin_send(self.log_sums[i], peer, tag=f"sums {i}")
        self.losses.append((losses * share).sum())
        return ((mean_rows - rows.sum(0)) * share[:, None]).view(self.shape_of_message(i))

    def finish_part(self, action):
        """Run T: add the gradient of this rank's rows of the output layer."""
        i = action.microbatch
        is_last = self.rank == self.last
        sums = self.log_sums.pop(i) if is_last else self.get(self.targets[i].numel(), f"sums {i}")
        with self.around(action):
            self.parts.pop(i).add_weight_gradient(sums, self.share_of(i))

    def share_of(self, i) -> Tensor:
        """Return each target's share of the batch's mean; a target of -100 has none."""
        counts = self.targets[i].flatten() != -100
        return counts.to(self.dtype) / sum(self.counts)

    def get(self, shape, tag, peer=None) -> Tensor:
        x = torch.empty(shape, dtype=self.dtype)
        peer = self.last if peer is None else peer
        dist.recv(x, group=self.group, group_src=peer, tag=number_of(tag))
        return x

    def begin_send(self, x, peer, tag):
        request = dist.isend(x, group=self.group, group_dst=peer, tag=number_of(tag))
        self.under_way.append((request, x))


def number_of(tag) -> int:
    """Return a number for "output 3", which no message between stages has."""
    kind, i = tag.split()
    return 1_000_000 * (1 + ("output", "part", "sums").index(kind)) + int(i)


# ---- A model with a large vocabulary --------------------------------------------------------


def make_model(vocabulary, width=32, blocks=4, context=16, heads=2, seed=0) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(width=width, layers=blocks, heads=heads, context=context)
    model.letters = nn.Embedding(vocabulary, width)
    model.output = nn.Linear(width, vocabulary, bias=False)
    return model


def draw_pairs(text, samples, number, context, vocabulary=128 * 128):
    """Return inputs and targets whose tokens are pairs of characters, modulo the vocabulary."""
    letters, _ = draw_batch(text, samples, number, 2 * context + 2)
    tokens = (128 * letters[:, ::2] + letters[:, 1::2]) % vocabulary
    return tokens[:, :-1], tokens[:, 1:]


def gap(vocabulary, microbatches, blocks=None, samples=7, extra=1, ignored=False) -> float:
    """Return how far this rank's gradients and loss are from one process's, in float64."""
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    split, alone = (make_model(vocabulary, blocks=blocks or ranks + 1) for _ in range(2))
    inputs, targets = draw_pairs(standard_library(20_000), samples, 0, 16, vocabulary)
    targets = targets.clone()
    if ignored:
        targets[::2, :5] = -100
    loss = mean_loss(alone(inputs), targets)
    loss.backward()
    rows, _ = list_schedule(ranks, microbatches, {"F": 1, "B": 2, "S": 1, "T": 1}, extra)
    pipeline = VocabularyPipeline(split)
    parts = [part.tensor_split(microbatches) for part in (inputs, targets)]
    total = pipeline.step(rows[rank], *parts)
    mine = {p for stage in pipeline.stages for p in stage.piece.parameters()}
    of_alone = dict(zip(split.parameters(), alone.parameters()))
    pairs = [(p.grad, of_alone[p].grad) for p in mine]
    for part, of in ((pipeline.embedding.weight, alone.letters), (pipeline.output, alone.output)):
        pairs.append((part.grad, of.weight.grad.split(part.cut_sizes)[rank]))
    if rank == ranks - 1:
        pairs.append((torch.tensor(total), loss))
    return max(relative_gap(p, q.detach()) for p, q in pairs)


# ---- Times, memory and messages -------------------------------------------------------------


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


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(gap, 37, 5, world_size=3)
    if run.rank == 0:
        print(f"gradients and loss of one process to 1e-12: {max(run.values) < 1e-12}")


if __name__ == "__main__":
    main()
