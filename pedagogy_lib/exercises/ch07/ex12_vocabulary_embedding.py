"""An embedding whose tokens are split over ranks. The truth is F.embedding."""

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ..kit import GROUP, At, Equals, Holds, RankExercise, World, answering, never
from ..kit.counted import Counted
from ..kit.groups import PASSED_BY, noting_passed, parts_of
from ..kit.on_ranks import IN_A_GROUP
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused
from ..kit.requests import all_waited
from ..kit.trials import turned
from ..kit.values import VIEW

TOKENS = 10  # never shared out evenly among three
TABLE = torch.arange(1.0, 3 * TOKENS + 1, dtype=torch.float64).view(TOKENS, 3) / 3
ALL = torch.tensor([[3, 9, 0, 4, 3, 8], [7, 6, 5, 2, 1, 9]])
ALL_LEAVE = (
    "every rank calls self.leave, once: also one that has none of the tokens. It adds zeros, and "
    "the others wait for it"
)
TRUTHS = "one truth for each token, and a row of numbers: mine.unsqueeze(-1)"
FOREIGN = (
    "a row of this rank is added for the tokens of others, too. A row has to be looked up, but "
    "what is added for them is zeros: multiply by mine, or use where"
)
TOO_MANY = (
    "one token too many counts as this rank's own: its tokens are in the rows 0 to "
    "len(self.weight) - 1"
)
MASKED_OUTSIDE = (
    "the numbers are zeros, but autograd does not know it, as under no_grad or in .data: the "
    "gradient of other ranks' tokens flows into the row that was looked up in their place"
)
NO_PADDING = (
    "the row that stands in for other ranks' tokens gets no gradient here, and it is that of one "
    "of this rank's tokens, too: padding_idx takes it away from whoever looks up that row"
)


# ---- On a rank ---


class Exit:
    """A `leave` that notes what a rank adds, and gives the right sum, whatever that is."""

    def __init__(self, group, tokens):
        self.group, self.whole, self.shares = group, F.embedding(tokens, TABLE), []

    def leave(self, x, group=None):
        if self.group is not None and group is not self.group:
            raise Refused("self.leave was called without the layer's group", IN_A_GROUP)
        if not isinstance(x, torch.Tensor):
            raise Refused(f"self.leave was given {x!r:.40}", "it takes the rows, and the group")
        self.shares.append(x.detach().clone())
        fits = x.numel() == self.whole.numel()
        return x + (self.whole.view(x.shape) - x).detach() if fits else x


def embed(answer, group, case):
    tokens = turned(case.args[0]).clone()
    exits, passed = Exit(group, tokens), []
    layer = answer(nn.Embedding.from_pretrained(TABLE, freeze=False), group, leave=exits.leave)
    with answering(), all_waited():
        y = layer(tokens)
        if not isinstance(y, torch.Tensor):
            raise Refused(f"forward returned {y!r:.40}", NO_RETURN if y is None else "")
        fits = y.shape == exits.whole.shape
        with noting_passed() as passed:
            if y.requires_grad and fits:
                (y * slope(tokens)).sum().backward()  # backward(gradient) imports for seconds
    share, grad = exits.shares[0] if exits.shares else None, layer.weight.grad
    found = {
        "times": len(exits.shares), "passed": passed,
        "shape": None if share is None else tuple(share.shape),
        "changed": not tokens.equal(case.args[0]), "y": y.detach(),
        "gradient": torch.zeros_like(layer.weight) if grad is None else grad,
    }  # fmt: skip
    if found["shape"] != exits.whole.shape:
        return found
    return found | {"rows": by_token(case, lambda k: share[case.args[0] == k].mean(0))}


def slope(tokens):
    """A gradient of the output: another one for each number, the same on every rank."""
    numbers = torch.arange(1.0, 3 * tokens.numel() + 1, dtype=torch.float64)
    return numbers.view(*tokens.shape, 3) / 3


# ---- What is right, and what is not ---


def by_token(case, row_of) -> dict:
    return {f"token {token}": row_of(token) for token in case.args[0].unique().tolist()}


def rows(trial, place):
    own = torch.zeros_like(TABLE)
    parts_of(own, trial.n)[place].copy_(parts_of(TABLE, trial.n)[place])
    return by_token(trial.case, own.__getitem__)


def gradient(trial, place):
    whole, (tokens,) = TABLE.clone().requires_grad_(), trial.case.args
    (F.embedding(tokens, whole) * slope(tokens)).sum().backward()
    return parts_of(whole.grad, trial.n)[place]


def looked_up(trial, place) -> dict:
    """{mistake: which of this rank's rows it takes for each token; `size` for zeros}."""
    parts, tokens = parts_of(TABLE, trial.n), torch.arange(TOKENS)
    size, first = len(parts[place]), sum(map(len, parts[:place]))
    row, other = tokens - first, tokens - place * size
    mine = (row >= 0) & (row < size)
    return {
        FOREIGN: row.where(mine, 0),
        f"{FOREIGN} (clamp gives the first row, or the last)": row.clamp(0, size - 1),
        f"{FOREIGN} (% gives any)": row % size,
        "a negative place counts from the end: tokens before this rank's first one get its last "
        "rows. Both bounds are needed, place >= 0 and place < len(self.weight)":
            (row % size).where((row >= -size) & (row < size), size),
        "the rows of this rank count from 0: its token number self.first is in row 0":
            tokens.clamp(max=size),
        "the first token of each rank is left out: rows count from 0, so 0 is one of them, and no "
        "mark for what is not its own: place >= 0":
            row.where(mine & (row > 0), size),
        "the last token of each rank is left out: place < len(self.weight)":
            row.where(mine & (row < size - 1), size),
        f"{TOO_MANY}. Here that behind its last one counts, too":
            row.clamp(0, size - 1).where((row >= 0) & (row <= size), size),
        f"{TOO_MANY}. Here that before its first one counts, too":
            row.clamp(0, size - 1).where((row >= -1) & (row < size), size),
        "the ranks before need not have as many tokens as this one: this rank's first token is "
        "self.first": other.where((other >= 0) & (other < size), size),
    }  # fmt: skip


def wrong_rows(trial, place):
    part = F.pad(parts_of(TABLE, trial.n)[place], (0, 0, 0, 1))
    means = {token: row / trial.n for token, row in rows(trial, place).items()}
    return {} if trial.case.is_group else {
        "one rank has the row of a token, the others add zeros: there is no mean to take": means,
        **{why: by_token(trial.case, part[taken].__getitem__)
           for why, taken in looked_up(trial, place).items()},
    }  # fmt: skip


def wrong_gradients(trial, place):
    right, (tokens,) = gradient(trial, place), trial.case.args
    into = lambda taken: torch.zeros_like(right).index_add(  # noqa: E731
        0, taken[tokens.flatten()], slope(tokens).flatten(0, -2)
    )
    return {
        "there is no way back from the output to self.weight. Was it taken by .data or detach(), "
        "or under no_grad? A lookup in self.weight is all autograd needs": 0 * right,
        "the gradient is n times too large: leave passes it on already, add up nothing more":
            trial.n * right,
        **{why.replace(FOREIGN, MASKED_OUTSIDE): into(taken)
           for why, taken in looked_up(trial, place).items() if FOREIGN in why},
        NO_PADDING: F.pad(right[1:], (0, 0, 1, 0)),
        f"{NO_PADDING}. Here it is the last one": F.pad(right[:-1], (0, 0, 0, 1)),
    }  # fmt: skip


def why_not_once(trial, place):
    of = trial[place]
    if of.times:
        return "add up once: the sum of sums has every row n times"
    if any(trial.of("times")):
        return ALL_LEAVE
    if of.passed:
        return f"{PASSED_BY}. Here it is self.leave"
    if close(of.y, F.embedding(trial.case.args[0], TABLE)):
        return (
            "the numbers are right, but self.leave was not called. What it is, is not this layer's "
            "affair: in 07g another one takes its place"
        )
    return (
        "the rows of this rank's tokens are there, and zeros for all others, but they are added "
        "up nowhere: self.leave(rows, self.group)"
    )


EXERCISE = RankExercise(
    "7.12",
    "VocabularyEmbedding",
    lab="tensor_parallel",
    needs=("7.1",),
    cases=[
        At(World(3), (ALL,), ", all tokens, some twice"),
        At(World(2), (torch.tensor([8, 9, 9]),), ", tokens of the last rank alone"),
        At(World(3), (torch.tensor([[[0]]]),), ", a single token"),
        At(GROUP, (ALL,)),
    ],
    work=embed,
    facts=[
        Holds("times", lambda times: times == 1,
              "it has called self.leave {} times, expected once", why_not_once),
        Equals("shape", lambda trial, place: (*trial.case.args[0].shape, 3),
               called="the shape of what self.leave gets",
               otherwise="give it the rows in their final shape. It may bring back less than the "
               "whole: what comes after it cannot know"),
        Equals("rows", rows, wrong_rows, "what it adds for"),
        Equals("y", lambda trial, place: F.embedding(trial.case.args[0], TABLE),
               called="the output",
               otherwise="what leave returns is the output: nothing is left to do with it"),
        Equals("gradient", gradient, wrong_gradients, "the gradient of weight"),
        never("changed", "the tokens have changed",
              "the caller still needs them as they were: tokens - first is a new tensor, -= is "
              "not"),
        Counted(lambda trial: 0, "besides self.leave it needs",
                "self.leave is the only message, and the backward needs none"),
    ],
    told="rows and gradients are F.embedding's, 1 all-reduce",
    errors={
        "out of range": "only this rank's rows are here: the token `first` is in row 0, and the "
        "tokens of other ranks are in none. Look up any row for those, and put zeros in its place",
        "is out of bounds": "only this rank's rows are here: counted from `first`, tokens of "
        "other ranks are negative, or too large. A negative index counts from the end, and a "
        "lookup that does not fail is as wrong. Look up any row for those, and put zeros in its "
        "place",
        "view size is not compatible": VIEW,
        "must match the size": TRUTHS,
        "does not match the shape": TRUTHS,
    },
    lost=ALL_LEAVE,
    hints=(
        "This rank has the rows of the tokens from self.first on, as many as len(self.weight) "
        "says. What should it add to the sum for a token that it has not?",
        "place = tokens - self.first is the row, if this rank has it. mine = (place >= 0) & "
        "(place < len(self.weight)) tells where that is so.",
        "Look up what is always there, such as row place.where(mine, 0). What was found for "
        "other ranks' tokens has to become zeros: multiply by mine.unsqueeze(-1), so that "
        "autograd knows of it. Then self.leave adds up, once.",
    ),
)  # fmt: skip
