"""An embedding whose letters are split over ranks: exercise 7.11. The truth is F.embedding."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong
from ..kit.differences import first_difference
from ..kit.groups import PASSED_BY, WORLDS, Calls, noting_passed, parts_of, try_groups
from ..kit.on_ranks import IN_A_GROUP
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused

LETTERS = 10  # never shared out evenly among three
TABLE = torch.arange(1.0, 3 * LETTERS + 1, dtype=torch.float64).view(LETTERS, 3)
TEXTS = {
    "all letters, some twice": torch.tensor([[3, 9, 0, 4, 3, 8], [7, 6, 5, 2, 1, 9]]),
    "letters of the last rank alone": torch.tensor([8, 9, 9]),
    "a single letter": torch.tensor([[[0]]]),
}
EMBEDDING_ERRORS = {
    "out of range": "only this rank's rows are here: the letter `first` is in row 0, and the "
    "letters of other ranks are in none. Look up any row for those, and put zeros in its place",
    "is out of bounds": "only this rank's rows are here: letters - self.first is negative, or too "
    "large, for letters of other ranks. A negative index counts from the end, and a lookup that "
    "does not fail is as wrong. Look up any row for those, and put zeros in its place",
    "must match the size": "one truth for each letter, and a row of numbers: mine.unsqueeze(-1)",
    "does not match the shape": "one truth for each letter, and a row of numbers: "
    "mine.unsqueeze(-1)",
}
ALL_LEAVE = (
    "every rank calls self.leave, once: also one that has none of the letters. It adds zeros, and "
    "the others wait for it"
)
ONCE = "add up once: the sum of sums has every row n times"
OWN_LEAVE = (
    "the numbers are right, but self.leave was not called. What it is, is not this layer's affair: "
    "in 07b another one takes its place"
)
KNOWN_LEAVE = f"{PASSED_BY}. Here it is self.leave"
NEVER_LEFT = (
    "the rows of this rank's letters are there, and zeros for all others, but they are added up "
    "nowhere: self.leave(rows, self.group)"
)
AS_IT_LEAVES = (
    "give it the rows in their final shape. It may bring back less than the whole: what comes "
    "after it cannot know"
)
AFTER_LEAVE = "what leave returns is the output: nothing is left to do with it"
LOST = (
    "there is no way back from the output to self.weight. Was it taken by .data or detach(), or "
    "under no_grad? A lookup in self.weight is all autograd needs"
)
MASKED_OUTSIDE = (
    "the numbers are zeros, but autograd does not know it, as under no_grad or in .data: the "
    "gradient of other ranks' letters flows into the row that was looked up in their place"
)
MORE_CALLS = "self.leave is the only message, and the backward needs none"


class Exit:
    """A `leave` that notes what each rank adds, and does not change the gradient."""

    def __init__(self, group):
        self.group, self.shares = group, []

    def leave(self, x, group=None):
        if self.group is not None and group is not self.group:
            raise Refused("self.leave was called without the layer's group", IN_A_GROUP)
        if not isinstance(x, torch.Tensor):
            raise Refused(f"self.leave was given {x!r:.40}", "it takes the rows, and the group")
        self.shares.append(x.detach().clone())
        total = x.detach().clone()
        dist.all_reduce(total, group=group)
        return x + (total - x).detach()


def embed_on_rank(answer, group) -> list[dict]:
    return [embed(answer, group, letters.clone(), letters) for letters in TEXTS.values()]


def embed(answer, group, letters, original) -> dict:
    """What came of one text on this rank."""
    exits, rank, n = Exit(group), dist.get_rank(group), dist.get_world_size(group)
    layer = answer(nn.Embedding.from_pretrained(TABLE, freeze=False), group, leave=exits.leave)
    wanted = parts_of(TABLE, n)[rank]
    if not isinstance(layer.weight, torch.Tensor) or not close(layer.weight.detach(), wanted):
        raise Refused("self.weight is not this rank's part of the table", 'first: check("7.1")')
    with Calls() as forward:
        y = layer(letters)
    if not isinstance(y, torch.Tensor):
        raise Refused(f"forward returned {y!r:.40}", NO_RETURN if y is None else "")
    with Calls() as backward, noting_passed() as passed:
        if y.requires_grad and y.shape == upstream_of(original).shape:
            (y * upstream_of(original)).sum().backward()  # backward(gradient) imports for seconds
    return {
        "y": y.detach(), "shares": exits.shares, "gradient": layer.weight.grad,
        "calls": len(forward.made), "backward": len(backward.made), "passed": passed,
        "changed": not torch.equal(letters, original),
    }  # fmt: skip


def upstream_of(letters):
    """A gradient of the output: another one for each number, the same on every rank."""
    return torch.arange(1.0, 3 * letters.numel() + 1, dtype=torch.float64).view(*letters.shape, 3)


def examine_embedding(answer):
    for groups in WORLDS:
        found = try_groups(groups, embed_on_rank, answer, EMBEDDING_ERRORS, ALL_LEAVE)
        otherwise = IN_A_GROUP if len(groups) > 1 else ""
        for who, of_ranks in found:
            for number, (text, letters) in enumerate(TEXTS.items()):
                judge_text(f"{who}, {text}", [of[number] for of in of_ranks], letters, otherwise)
            sizes = " + ".join(str(len(part)) for part in parts_of(TABLE, len(of_ranks)))
            yield f"{who}, {sizes} letters: rows and gradients are F.embedding's, 1 all-reduce"


def judge_text(case, found, letters, otherwise):
    n = len(found)
    whole = TABLE.clone().requires_grad_()
    wanted = F.embedding(letters, whole)
    (wanted * upstream_of(letters)).sum().backward()
    owner = torch.cat([torch.full((len(part),), k) for k, part in enumerate(parts_of(TABLE, n))])
    for rank, of in enumerate(found):
        judge_leaving(case, rank, of, wanted)
        share = wanted.detach() * (owner[letters] == rank).unsqueeze(-1)
        if not close(of["shares"][0], share):
            what = told_share(rank, of["shares"][0], share, letters, owner)
            raise Wrong(case, what, why_shares(found, letters) or otherwise)
    for rank, of in enumerate(found):
        if not close(of["y"], wanted.detach()):
            what = f"rank {rank}, the output {first_difference(of['y'], wanted.detach())}"
            raise Wrong(case, what, AFTER_LEAVE)
        right = parts_of(whole.grad, n)[rank]
        if not close(of["gradient"], right):
            what = f"rank {rank}, the gradient of weight {first_difference(of['gradient'], right)}"
            raise Wrong(case, what, why_rows(rank, n, letters, of["gradient"], right))
        if of["changed"]:
            raise Wrong(case, f"rank {rank}: the letters have changed", CHANGED)
        if of["calls"] != 1 or of["backward"]:
            what = f"rank {rank} communicates {of['calls']} + {of['backward']} times"
            raise Wrong(f"cost, {case}", f"{what}, forward + backward; expected 1 + 0", MORE_CALLS)


CHANGED = "the caller still needs them as they were: letters - first is a new tensor, -= is not"


def judge_leaving(case, rank, of, wanted):
    """Raise `Wrong` unless the rows have been given to `leave`, once, in the output's shape."""
    count = len(of["shares"])
    if count != 1:
        is_right = close(of["y"], wanted.detach())
        not_called = KNOWN_LEAVE if of["passed"] else OWN_LEAVE
        why = ONCE if count else not_called if is_right else NEVER_LEFT
        raise Wrong(case, f"rank {rank} has called self.leave {count} times, expected once", why)
    if of["shares"][0].shape != wanted.shape:
        what = f"rank {rank} gives self.leave shape {list(of['shares'][0].shape)}, "
        raise Wrong(case, what + f"expected {list(wanted.shape)}", AS_IT_LEAVES)


def told_share(rank, got, wanted, letters, owner) -> str:
    """`rank 0 adds [1, 2, 3] for letter 7, which is rank 2's; expected zeros`."""
    if got.dtype != wanted.dtype:
        return f"rank {rank} adds rows of {got.dtype}, expected {wanted.dtype}"
    off = (got != wanted).any(-1)
    letter = letters[off][0]
    row, right = (f"[{', '.join(f'{x:.4g}' for x in rows[off][0])}]" for rows in (got, wanted))
    told = right if owner[letter] == rank else "zeros"
    return f"rank {rank} adds {row} for letter {letter}, rank {owner[letter]}'s; expected {told}"


def rows_taken(rank, n) -> dict:
    """{sentence: the row that a misconception takes for a letter, or None for zeros}."""
    parts = parts_of(TABLE, n)
    size, first = len(parts[rank]), sum(map(len, parts[:rank]))
    inside = lambda place: place if 0 <= place < size else None  # noqa: E731
    foreign = (
        "a row of this rank is added for the letters of others, too. A row has to be looked up, "
        "but what is added for them is zeros: multiply by mine, or use where"
    )
    return {
        foreign: lambda k: inside(k - first) or 0,
        f"{foreign} (clamp gives the first row, or the last)":
            lambda k: min(max(k - first, 0), size - 1),
        f"{foreign} (% gives any)": lambda k: (k - first) % size,
        "a negative place counts from the end: letters before this rank's first one get its last "
        "rows. Both bounds are needed, place >= 0 and place < len(self.weight)":
            lambda k: k - first if -size <= k - first < size else None,
        "the rows of this rank count from 0: its letter number self.first is in row 0":
            lambda k: inside(k),
        "the first letter of each rank is left out: place >= 0, as rows count from 0":
            lambda k: inside(k - first) or None,
        "the last letter of each rank is left out: place < len(self.weight)":
            lambda k: k - first if 0 <= k - first < size - 1 else None,
        "the ranks before need not have as many letters as this one: this rank's first letter is "
        "self.first": lambda k: inside(k - rank * size),
    }  # fmt: skip


def looked_up(part, letters, take):
    rows = [take(k) for k in letters.flatten().tolist()]
    found = [torch.zeros_like(part[0]) if row is None else part[row] for row in rows]
    return torch.stack(found).view(*letters.shape, -1)


def why_shares(found, letters) -> str:
    n = len(found)
    parts = parts_of(TABLE, n)
    for why in rows_taken(0, n):
        shares = [looked_up(part, letters, rows_taken(k, n)[why]) for k, part in enumerate(parts)]
        if all(close(of["shares"][0], share) for of, share in zip(found, shares)):
            return why
    if all(close(n * of["shares"][0], TABLE[letters] * (of["shares"][0] != 0)) for of in found):
        return "one rank has the row of a letter, the others add zeros: there is no mean to take"
    return ""


def why_rows(rank, n, letters, got, right) -> str:
    if got is None:
        return LOST
    if close(got, n * right):
        return "the gradient is n times too large: leave passes it on already, add up nothing more"
    upstream, taken = upstream_of(letters).flatten(0, -2), rows_taken(rank, n).values()
    for take in list(taken)[:3]:  # a row for each letter
        rows = torch.tensor([take(k) for k in letters.flatten().tolist()])
        if close(got, torch.zeros_like(right).index_add(0, rows, upstream)):
            return MASKED_OUTSIDE
    return ""


EXERCISE = Exercise(
    "7.11", "VocabularyEmbedding", examine_embedding,
    (
        "This rank has the rows of the letters from self.first on, as many as len(self.weight) "
        "says. What should it add to the sum for a letter that it has not?",
        "place = letters - self.first is the row, if this rank has it. mine = (place >= 0) & "
        "(place < len(self.weight)) tells where that is so.",
        "Look up what is always there, such as row place.where(mine, 0). What was found for "
        "other ranks' letters has to become zeros: multiply by mine.unsqueeze(-1), so that "
        "autograd knows of it. Then self.leave adds up, once.",
    ),
    lab="tensor_parallel",
)  # fmt: skip
