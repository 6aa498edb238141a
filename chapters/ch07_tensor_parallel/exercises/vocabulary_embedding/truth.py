"""The right results, and the results of known mistakes."""

import torch
import torch.nn.functional as F

from coursekit.kit.observed_calls import PASSED_BY, parts_of
from pedagogy_lib.basics.closeness import close

from .cases import TABLE, TOKENS, map_tokens, slope

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


def rows(trial, place):
    own = torch.zeros_like(TABLE)
    parts_of(own, trial.n)[place].copy_(parts_of(TABLE, trial.n)[place])
    return map_tokens(trial.case, own.__getitem__)


def gradient(trial, place):
    whole, (tokens,) = TABLE.clone().requires_grad_(), trial.case.args
    (F.embedding(tokens, whole) * slope(tokens)).sum().backward()
    return parts_of(whole.grad, trial.n)[place]


def list_wrong_rows(trial, place) -> dict:
    """Return {mistake: the rank's row that it takes for each token; `size` for zeros}."""
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
        **{why: map_tokens(trial.case, part[taken].__getitem__)
           for why, taken in list_wrong_rows(trial, place).items()},
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
           for why, taken in list_wrong_rows(trial, place).items() if FOREIGN in why},
        NO_PADDING: F.pad(right[1:], (0, 0, 1, 0)),
        f"{NO_PADDING}. Here it is the last one": F.pad(right[:-1], (0, 0, 0, 1)),
    }  # fmt: skip


def why_not_once(trial, place):
    of = trial[place]
    if of.times:
        return "add up once: the sum of sums has every row n times"
    if any(trial.collect_values("times")):
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
