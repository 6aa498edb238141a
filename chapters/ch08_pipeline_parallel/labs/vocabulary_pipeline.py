"""A pipeline whose embedding and output layer are cut by tokens over all stages.

torchrun --nproc-per-node 3 labs/vocabulary_pipeline.py
"""

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import (
    Pipeline,
    Stage,
    add_gradient,
    even_sizes,
    my_pieces,
    pieces_of,
)
from tensor_parallel import IGNORED, VocabularyEmbedding, part_of, refuse_unknown
from torch import Tensor, nn
from vocabulary_schedules import list_schedule, most_kept

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
        logits = logits.to(at_least_float32(logits.dtype))
        highest = logits.amax(-1)
        self.exp = (logits - highest[:, None]).exp()
        place = targets - first
        self.mine = (place >= 0) & (place < len(weight))
        self.place = place.where(self.mine, 0)
        picked = logits.gather(-1, self.place[:, None])[:, 0].where(self.mine, 0)
        self.statistics = torch.stack([highest, self.exp.sum(-1), picked])
        self.vectors = (self.exp.to(weight.dtype) @ weight).to(logits.dtype)
        self.rows = weight[self.place].where(self.mine[:, None], 0)

    def pack(self) -> Tensor:
        """Return what the last stage needs, as one message of 2 * width + 3 numbers a target."""
        return torch.cat([self.statistics.T, self.vectors, self.rows], dim=1)

    @torch.no_grad()
    def add_weight_gradient(self, log_sums, share):
        """Add to weight.grad unless it is frozen; `share` is each target's share of the mean."""
        if self.weight.requires_grad:
            probabilities = self.exp * ((self.statistics[0] - log_sums).exp() * share)[:, None]
            probabilities[torch.arange(len(share)), self.place] -= share * self.mine
            add_gradient(self.weight, probabilities.to(self.y.dtype).T @ self.y)


def at_least_float32(dtype) -> torch.dtype:
    """Return the dtype of sums of exp and of losses, which 16 bits would round too much."""
    return torch.promote_types(dtype, torch.float32)


def merge_parts(statistics, vectors) -> tuple[Tensor, Tensor, Tensor]:
    """Exercise {{merge_parts}}. Merge the stages' parts of an output layer.

    statistics  (stages, 3, targets): of each stage the highest logit, the sum of exp(logit -
                highest) over its tokens, and the target's logit, or 0 if another stage has it
    vectors     (stages, targets, width): the sum of exp(logit - highest) times the logit's row
    Returns     the loss of each target, (targets,); the logarithm of the sum of exp(logit) over all
                tokens, (targets,); the sum of probability times row over all tokens, (targets,
                width). All have the dtype of `vectors`
    Raises      nothing: no exp overflows, however large the logits of a stage or a target are
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
        return x + self.places(torch.arange(x.shape[1], device=x.device))


class VocabularyPipeline(Pipeline):
    """A pipeline of a transformer that runs the rows of `vocabulary_schedules.list_schedule`.

    Each rank has the rows of some tokens of the embedding and of the output layer. Rank 0 looks up
    a micro-batch right before its forward; the other ranks have sent it the vectors of their tokens
    `ahead` micro-batches earlier, as many as a rank keeps. Tied weights are one parameter, since
    its rows are cut alike. Messages have tags of their own, as Gloo has them. After a step that
    raised, the ranks have to be started anew.

    Cost    per micro-batch, the last rank sends its output to all others, and one number per
            target; each other rank sends it 2 * width + 3 numbers per target, in float32 at least.
            A token's vector goes from the rank that has it to rank 0, and its gradient back
    Raises  on all ranks, ValueError if the output layer has a bias, parameters differ in dtype, or
            autocast is on; IndexError if an input or a target is not in the vocabulary
    """

    def __init__(self, model, group=None, **options):
        refuse_model(model)
        ranks = dist.get_world_size(group)
        self.embedding = VocabularyEmbedding(model.letters, group)
        tied = model.output.weight is model.letters.weight
        self.output = self.embedding.weight if tied else part_of(model.output.weight, 0, group)
        self.first = sum(self.output.cut_sizes[: dist.get_rank(group)])
        sizes = even_sizes(len(model.blocks), ranks)
        sizes[-1] += 1  # the last norm
        pieces = pieces_of([*model.blocks, model.norm], sizes)
        pieces[0].insert(0, Places(model.places))
        stages = [Stage(piece) for piece in my_pieces(pieces, group)]
        dtype, width = model.output.weight.dtype, model.letters.weight.shape[1]
        super().__init__(stages, mean_loss, width, group, dtype=dtype, **options)
        self.last = self.ranks - 1

    def step(self, actions, inputs, targets):
        refuse_batch(inputs, len_of(self.embedding.weight), targets, len_of(self.output))
        row = list(actions)
        ahead = torch.tensor(max(most_kept([row])))
        dist.all_reduce(ahead, dist.ReduceOp.MAX, self.group)
        self.outputs, self.parts, self.log_sums, self.sent = {}, {}, {}, {}
        return super().step(self.run_output_passes(row, ahead.item()), inputs, targets)

    def run_output_passes(self, actions, ahead):
        """Yield the actions of the stages; run those of the output layer, and the look-ups, here.

        Before rank 0's forward of micro-batch i, all ranks' backwards of i - ahead are done. So no
        rank waits forever for a vector, a gradient, or the end of a send.
        """
        run = {"S": self.compute_part, "T": self.finish_part}
        done = 0  # backwards
        for i in range(ahead):
            self.send_vectors(i)
        for action in actions:
            if action.kind in run:
                run[action.kind](action)
                continue
            yield action
            if action.kind == "B":
                self.send_vectors(done + ahead)
                self.add_slopes(done - ahead)
                self.finish_sends(done - ahead - 1)
                done += 1
        for i in range(max(done - ahead, 0), done):
            self.add_slopes(i)
        self.finish_sends(len(self.inputs))

    def is_first(self, chunk) -> bool:
        """Return False: rank 0's stage takes vectors, and may be frozen like any other one."""
        return False

    def forward(self, action):
        i = action.microbatch
        x = self.receive(action) if self.rank else self.look_up(i)
        with self.around(action):
            y = self.stages[0].forward(i, x)
        if self.rank < self.last:
            self.send(y, action)
            return
        self.outputs[i] = y.flatten(0, 1)
        for peer in range(self.last):
            self.begin_send(self.outputs[i], peer, "output", i)

    def compute_part(self, action):
        """Run S: compute this rank's part of the logits, and send what it adds to the last rank."""
        i, targets = action.microbatch, self.targets[action.microbatch].flatten()
        shape = len(targets), self.width
        y = self.outputs.pop(i) if self.rank == self.last else self.get(shape, "output", i)
        with self.around(action):
            self.parts[i] = OutputPart(self.output, self.first, y, targets)
        if self.rank < self.last:
            self.begin_send(self.parts[i].pack(), self.last, "part", i)

    def back(self, action, compute):
        i = action.microbatch
        slope = self.merge(i) if self.rank == self.last else self.receive(action)
        with self.around(action):
            slope = compute(i, slope)
        if self.rank:
            self.send(slope, action)
        else:
            self.return_slopes(i, slope)

    def merge(self, i) -> Tensor:
        """Return the gradient of the last stage's output; send the logarithms of the sums."""
        share, shape = self.share_of(i), (self.targets[i].numel(), 3 + 2 * self.width)
        packed = [self.get(shape, "part", i, peer) for peer in range(self.last)]
        packed = torch.stack([*packed, self.parts[i].pack()])
        statistics, vectors, rows = packed.split([3, self.width, self.width], dim=2)
        losses, self.log_sums[i], mean_rows = merge_parts(statistics.transpose(1, 2), vectors)
        for peer in range(self.last):
            self.begin_send(self.log_sums[i], peer, "sums", i)
        self.losses.append((losses * share).sum())
        slope = (mean_rows - rows.sum(0)) * share[:, None]
        return slope.to(self.dtype).view(self.shape_of_message(i))

    def finish_part(self, action):
        """Run T: add the gradient of this rank's rows of the output layer."""
        i = action.microbatch
        is_last = self.rank == self.last
        sums = self.log_sums.pop(i) if is_last else self.get([self.targets[i].numel()], "sums", i)
        with self.around(action):
            self.parts.pop(i).add_weight_gradient(sums, self.share_of(i))

    def share_of(self, i) -> Tensor:
        """Return each target's share of the batch's mean; a target of -100 has none."""
        counts = self.targets[i].flatten() != IGNORED
        return counts.to(at_least_float32(self.dtype)) / sum(self.counts)

    # The embedding, whose vectors rank 0 alone needs.

    def is_on(self, rank, i) -> Tensor:
        """Return for each token of micro-batch i whether a rank has its row."""
        sizes, tokens = self.embedding.weight.cut_sizes, self.inputs[i]
        first = sum(sizes[:rank])
        return (first <= tokens) & (tokens < first + sizes[rank])

    def my_places(self, i) -> Tensor:
        """Return the indices of the rows that micro-batch i takes from this rank's part."""
        return self.inputs[i][self.is_on(self.rank, i)] - self.embedding.first

    def send_vectors(self, i):
        if self.rank and i < len(self.inputs):
            self.begin_send(self.embedding.weight.detach()[self.my_places(i)], 0, "vectors", i)

    def look_up(self, i) -> Tensor:
        """Return micro-batch i's vectors on rank 0: its own, and those that have arrived."""
        x = torch.empty(self.shape_of_message(i), dtype=self.dtype)
        x[self.is_on(0, i)] = self.embedding.weight.detach()[self.my_places(i)]
        for rank in range(1, self.ranks):
            here = self.is_on(rank, i)
            x[here] = self.get([int(here.sum()), self.width], "vectors", i, rank)
        return x

    def return_slopes(self, i, slope):
        """Give each rank the gradients of its tokens' vectors, on rank 0."""
        if self.embedding.weight.requires_grad:
            self.add_rows(i, slope[self.is_on(0, i)])
            for rank in range(1, self.ranks):
                self.begin_send(slope[self.is_on(rank, i)], rank, "slopes", i)

    def add_slopes(self, i):
        """Add what rank 0 has returned for micro-batch i, on the other ranks."""
        if self.rank and i >= 0 and self.embedding.weight.requires_grad:
            shape = int(self.is_on(self.rank, i).sum()), self.width
            self.add_rows(i, self.get(shape, "slopes", i, 0))

    def add_rows(self, i, slopes):
        weight = self.embedding.weight
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        weight.grad.index_add_(0, self.my_places(i), slopes)

    # Messages to and from the first and the last rank.

    def dtype_of(self, kind) -> torch.dtype:
        return at_least_float32(self.dtype) if kind in ("part", "sums") else self.dtype

    def get(self, shape, kind, i, peer=None) -> Tensor:
        x = torch.empty(shape, dtype=self.dtype_of(kind))
        if x.numel():
            peer = self.last if peer is None else peer
            dist.recv(x, group=self.group, group_src=peer, tag=number_of(kind, i))
        return x

    def begin_send(self, x, peer, kind, i):
        if x.dtype != self.dtype_of(kind):
            raise ValueError(f"{kind} {i} is {x.dtype}, and its message {self.dtype_of(kind)}")
        if x.numel():
            request = dist.isend(x, group=self.group, group_dst=peer, tag=number_of(kind, i))
            until = len(self.inputs) if kind == "sums" else i  # T may come at any time
            self.sent.setdefault(until, []).append((request, x))

    def send(self, x, action):
        super().send(x, action)
        self.sent.setdefault(action.microbatch, []).extend(self.under_way)
        self.under_way.clear()

    def finish_sends(self, newest):
        """Wait for the messages of micro-batches up to `newest`, and free them."""
        for i in [i for i in self.sent if i <= newest]:
            for request, _ in self.sent.pop(i):
                request.wait()


def number_of(kind, i) -> int:
    """Return a number for the message "output" of micro-batch i, which no stages exchange."""
    kinds = ("output", "part", "sums", "vectors", "slopes")
    return 1_000_000 * (1 + kinds.index(kind)) + i


def len_of(part) -> int:
    """Return the number of rows of the whole of which a parameter is a part."""
    return sum(part.cut_sizes)


def refuse_model(model):
    """Raise ValueError if a model has what the parts of the output layer would leave out."""
    dtypes = {p.dtype for p in model.parameters()}
    if model.output.bias is not None:
        raise ValueError("the output layer has a bias, which is not split here: leave it out")
    if len(dtypes) > 1:
        raise ValueError(f"all parameters need one dtype, not {sorted(map(str, dtypes))}")


def refuse_batch(inputs, input_rows, targets, target_rows):
    """Raise an error on all ranks, which have the same batch, before any of them waits."""
    device = torch.get_default_device().type
    if torch.is_autocast_enabled(device):
        raise ValueError(
            "a spread output layer takes its messages' dtype from the weights: leave out autocast, "
            "and convert the model, as with model.bfloat16()"
        )
    for part in inputs:
        refuse_unknown(part, input_rows)
    for part in targets:
        refuse_unknown(part[part != IGNORED], target_rows)


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


def gap(
    vocabulary, microbatches, blocks=None, samples=7, extra=1, ignored=False, tied=False, frozen=()
) -> float:
    """Return how far this rank's gradients and loss are from one process's, in float64.

    frozen  names of modules of the model, such as "letters" or "blocks.0"
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    split, alone = (make_model(vocabulary, blocks=blocks or ranks + 1) for _ in range(2))
    for model in (split, alone):
        if tied:
            model.output.weight = model.letters.weight
        for name in frozen:
            model.get_submodule(name).requires_grad_(False)
    inputs, targets = draw_pairs(standard_library(20_000), samples, 0, 16, vocabulary)
    targets = targets.clone()
    if ignored:
        targets[::2, :5] = IGNORED
    rows, _ = list_schedule(ranks, microbatches, {"F": 1, "B": 2, "S": 1, "T": 1}, extra)
    pipeline = VocabularyPipeline(split)
    parts = [part.tensor_split(microbatches) for part in (inputs, targets)]
    for _ in range(2):  # gradients add up
        loss = mean_loss(alone(inputs), targets)
        loss.backward()
        total = pipeline.step(rows[rank], *parts)
    mine = {p for stage in pipeline.stages for p in stage.piece.parameters()}
    of_alone = dict(zip(split.parameters(), alone.parameters()))
    pairs = [(p.grad, of_alone[p].grad) for p in mine]
    for part, of in ((pipeline.embedding.weight, alone.letters), (pipeline.output, alone.output)):
        whole = of.weight.grad
        pairs.append((part.grad, None if whole is None else whole.split(part.cut_sizes)[rank]))
    if rank == ranks - 1:
        pairs.append((torch.tensor(total), loss))
    if any((p is None) != (q is None) for p, q in pairs):
        return float("inf")
    return max(relative_gap(p, q.detach()) for p, q in pairs if p is not None)


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
