"""The likeliest letter, where each rank has the scores of some: exercise 7.19."""

import contextlib
import itertools
import os
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist

from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.on_ranks import IN_A_GROUP
from ..kit.trials import kind_of, same
from .pieces import SAME_CALLS, explain_in_rank, group_of_rank, told_groups

WORLD, GROUPS = ((0, 1, 2),), ((0,), (1, 2))
LOWEST = -torch.inf
EACH = 16  # bytes that two numbers take at most


# ---- What is tried ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Scores of some samples.

    scores  for each rank a list for each sample
    """

    what: str
    scores: tuple
    dtype: torch.dtype = torch.float32
    groups: tuple = WORLD

    def __str__(self):
        letters = ", ".join(str(len(of_rank[0])) for of_rank in self.scores)
        kind = str(self.dtype).removeprefix("torch.")
        return f"{told_groups(self.groups)} with {letters} letters, {kind}, {self.what}"

    def of(self, rank):
        return torch.tensor(self.scores[rank], dtype=self.dtype)

    def members(self, rank):
        return next(members for members in self.groups if rank in members)

    def first(self, rank) -> int:
        """The first letter of a rank."""
        before = [member for member in self.members(rank) if member < rank]
        return sum(len(self.scores[member][0]) for member in before)


NEAR = 1 + 2.0**-40  # float32 does not tell it from 1
LONG = 300  # letters of a rank: bfloat16 does not have all numbers from 256 on

CASES = (
    Case("each rank has the highest one once", (
        [[1.0, 5, 2, 0], [2, 1, 0, 3], [4, 9, 1, 8], [0, 1, 2, 3]],
        [[3, 12, 4], [1, 2, 0], [3, 2, 1], [4, 4.5, 1]],
        [[8, 7, 6], [0, 1, 4], [5, 6, 0], [2, 0, 1]],
    )),
    Case("all are negative", (
        [[-5.0, -4, -6, -7], [-3, -9, -2, -4]], [[-8, -9, -7], [-5, -6, -4]],
        [[-2, -3, -9], [-8, -7, -9]],
    )),
    Case("equal ones", (
        [[1.0, 4, 4, 0], [1, 0, 2, 1], [7, 7, 7, 7]], [[4, 4, 1], [0, 6, 6], [7, 7, 7]],
        [[0, 1, 4], [6, 6, 1], [7, 7, 7]],
    )),
    Case("a rank has -inf alone", (
        [[LOWEST] * 4, [1.0, LOWEST, 2, 0]], [[-3, -1, LOWEST], [LOWEST] * 3],
        [[-2, LOWEST, -4], [LOWEST, LOWEST, -1]],
    )),
    Case("nearly equal ones", (
        [[0.0, 1, 0, 1], [1, 0, 0, 0]], [[1, NEAR, 0], [0, 0, 1]], [[1, 0, 1], [0, 1, NEAR]],
    ), torch.float64),
    Case("many letters", (
        [[0.0] * LONG], [[0.0] * (LONG - 22) + [2.0] + [0.0] * 20], [[1.0] * (LONG - 1)],
    ), torch.bfloat16),
    Case("another one in each group", (
        [[1.0, 9, 2], [0, 1, 4]], [[0, 3, 2, 2], [5, 2, 0, 1]], [[1, 4, 2], [0, 1, 5]],
    ), groups=GROUPS),
)  # fmt: skip
LARGE = Case("bytes", tuple([[float(rank)] * (200 - rank)] * 2 for rank in range(3)))


def choose_all(answer) -> list[dict]:
    with without_last_words():
        return [choose(answer, case) for case in (*CASES, LARGE)]


@contextlib.contextmanager
def without_last_words():
    """Hide what libraries in C++ print, such as Gloo's words before it aborts; not Python's."""
    shown, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    how = {"buffering": 1, "errors": "backslashreplace"}
    with open(shown, "w", **how) as python, contextlib.redirect_stderr(python):
        os.dup2(nowhere, 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.close(nowhere)


def choose(answer, case) -> dict:
    """What a rank has chosen, and whether its scores are the old ones."""
    rank, group = dist.get_rank(), group_of_rank(case.groups)
    scores = case.of(rank)
    with measure(case.what):
        chosen = answer(scores, case.first(rank), group)
    return {"chosen": chosen, "same": torch.equal(scores, case.of(rank))}


# ---- Judging ---------------------------------------------------------------------------------

UNEVEN = "ranks have different numbers of letters: what travels has to be as long on all of them"
LETTER_ERRORS = {
    "expected length 3, got": IN_A_GROUP,
    "invalid output tensor list": IN_A_GROUP,
    "SIGABRT": UNEVEN,  # Gloo aborts if more comes than there is room for
    "sizes of tensors must match": UNEVEN,
    "Sizes of tensors must match": UNEVEN,
    "must have the same": "what all_gather fills is of the dtype of what it sends: scores may be "
    "float32, float64 or another one, and letters are int64",
    "same dtype": "what all_gather fills is of the dtype of what it sends: scores may be float32, "
    "float64 or another one, and letters are int64",
}


def examine_likeliest(answer):
    explain = explain_in_rank(LETTER_ERRORS, SAME_CALLS)
    world = told_groups(WORLD)
    run = try_on_ranks(world, choose_all, answer, world_size=3, explain=explain)
    for number, case in enumerate(CASES):
        found = [of_rank[number] for of_rank in run.values]
        for rank, of in enumerate(found):
            need_letters(case, rank, of["chosen"])
        for rank, of in enumerate(found):
            judge_letters(case, rank, found)
            if not of["same"]:
                raise Wrong(str(case), f"rank {rank}: the letters are right, scores have changed",
                            "whoever computed the scores may still need them")  # fmt: skip
        yield f"{case}: {', '.join(map(str, truth(case, 1)))}"
    yield judge_cost(run[LARGE.what])


def need_letters(case, rank, chosen):
    """Raise `Wrong` unless these are letters, of whatever value."""
    samples = len(case.scores[rank])
    if not isinstance(chosen, torch.Tensor):
        why = "every rank is to return the letters: all go on with them" if chosen is None else ""
        raise Wrong(str(case), f"rank {rank} returned {type(chosen).__name__}", why)
    if chosen.shape != (samples,):
        what = f"rank {rank} returned {kind_of(chosen)}, expected one letter for each sample, "
        raise Wrong(str(case), f"{what}[{samples}]", "the dim of letters, or of ranks, is to go")
    if chosen.dtype != torch.int64:
        what = f"rank {rank} returned {kind_of(chosen)}, expected int64"
        raise Wrong(str(case), what, "the next step looks the letters up: an index is int64")


def truth(case, rank) -> list[int]:
    """The first of the highest scores over all ranks of a rank's group."""
    return [row.index(max(row)) for row in joined_rows(case, rank)]


def joined_rows(case, rank) -> list[list[float]]:
    parts = [case.of(member).tolist() for member in case.members(rank)]
    return [list(itertools.chain(*rows)) for rows in zip(*parts)]


def judge_letters(case, rank, found):
    wanted, got = truth(case, rank), found[rank]["chosen"].tolist()
    if got == wanted:
        return
    sample = next(k for k, letter in enumerate(wanted) if got[k] != letter)
    what = f"rank {rank}, sample {sample}: letter {got[sample]}, expected {wanted[sample]}"
    raise Wrong(str(case), what, why_letters(case, found))


def why_letters(case, found) -> str:
    """The misconception that gives these letters on all ranks."""
    for why, guess in GUESSES.items():
        if all(same(of["chosen"], torch.tensor(guess(case, rank)))
               for rank, of in enumerate(found)):  # fmt: skip
            return why
    if not all(same(of["chosen"], found[0]["chosen"]) for of in found) and len(case.groups) == 1:
        return APART
    return ""


APART = (
    "the ranks have chosen different letters. Only one of them has the highest score, and all have "
    "to learn which letter it belongs to"
)


def own_best(case, rank) -> list[tuple[float, int]]:
    """Of each sample, a rank's highest score and where it is among its own letters."""
    return [(max(row), row.index(max(row))) for row in case.of(rank).tolist()]


def by_ranks(case, rank, key):
    """The letters that come of comparing what each rank has found: (score, letter) pairs."""
    pairs = [[(score, case.first(member) + place) for score, place in own_best(case, member)]
             for member in case.members(rank)]  # fmt: skip
    return [key(of_sample) for of_sample in zip(*pairs)]


def without_first(case, rank):
    whole = truth(case, rank)
    starts = [case.first(member) for member in case.members(rank)]
    return [letter - max(start for start in starts if start <= letter) for letter in whole]


def with_equal_parts(case, rank, of_winner):
    """As if all ranks had as many letters as the one with the highest score, or as this one."""
    members, found = case.members(rank), []
    for pairs in zip(*(own_best(case, member) for member in members)):
        best = max(range(len(pairs)), key=lambda k: pairs[k][0])
        size = len(case.scores[members[best] if of_winner else rank][0])
        found.append(best * size + pairs[best][1])
    return found


def of_one_rank(case, rank):
    """As if the rank with the highest score of all had won in every sample."""
    best = max(case.members(rank), key=lambda member: max(own_best(case, member)))
    return [case.first(best) + place for _, place in own_best(case, best)]


def of_all_groups(case, rank):
    """As if all groups were one, although `first` is counted within each."""
    members = itertools.chain(*case.groups)
    pairs = [[(score, -case.first(member) - place) for score, place in own_best(case, member)]
             for member in members]  # fmt: skip
    return [-max(of_sample)[1] for of_sample in zip(*pairs)]


def rounded(case, rank, dtype):
    return torch.tensor(truth(case, rank)).to(dtype).long().tolist()


def with_rounded_scores(case, rank):
    rows = torch.tensor(joined_rows(case, rank), dtype=torch.float64).float().tolist()
    return [row.index(max(row)) for row in rows]


def last_of_equal(case, rank):
    return [len(row) - 1 - row[::-1].index(max(row)) for row in joined_rows(case, rank)]


GUESSES = {
    "these are places among the letters of the rank that has the highest score. Its first letter "
    "is `first`: add it": without_first,
    "each rank has chosen among its own letters alone: the others' scores count, too":
        lambda case, rank: [case.first(rank) + place for _, place in own_best(case, rank)],
    "each rank has chosen among its own letters alone, and `first` is not added":
        lambda case, rank: [place for _, place in own_best(case, rank)],
    "these are numbers of ranks: that with the highest score. What is asked is its letter":
        lambda case, rank: by_ranks(case, rank, lambda pairs: max(
            range(len(pairs)), key=lambda k: pairs[k][0])),
    "of equal scores the last letter's counts here; as in argmax it is to be the first one's":
        last_of_equal,
    "of equal scores on several ranks, the last rank's counts here; as in argmax it is to be the "
    "first one's": lambda case, rank: by_ranks(case, rank, lambda pairs: max(pairs)[1]),
    "the letter has been rounded: bfloat16 has 8 binary digits, and from 256 on not every number. "
    "Let it travel as a dtype that has all letters, such as float64 or int64":
        lambda case, rank: rounded(case, rank, torch.bfloat16),
    "the scores have been rounded to float32, and look equal then: float64 has all of them":
        with_rounded_scores,
    "one rank has been chosen for all samples: argmax over the ranks, dim 0, chooses for each":
        of_one_rank,
    "the largest letter has won: it is the scores that are compared, and the letter goes with them":
        lambda case, rank: by_ranks(case, rank, lambda pairs: max(p[1] for p in pairs)),
    "the smallest letter has won: it is the scores that are compared, and the letter goes with "
    "them": lambda case, rank: by_ranks(case, rank, lambda pairs: min(p[1] for p in pairs)),
    "the letters are counted as if all ranks had as many as this one: `first` tells":
        partial(with_equal_parts, of_winner=False),
    "the letters are counted as if the ranks before had as many as this one: `first` tells":
        partial(with_equal_parts, of_winner=True),
    "zeros have taken part: a maximum over a tensor of zeros is never negative":
        lambda case, rank: [0] * len(case.scores[rank]),
    IN_A_GROUP: of_all_groups,
}  # fmt: skip


def judge_cost(block) -> str:
    n, samples = len(block.calls), len(LARGE.scores[0])
    most = (n - 1) * samples * EACH
    scores = (n - 1) * min(len(of_rank[0]) for of_rank in LARGE.scores) * samples * 4
    sent = max(sum(call.sent_bytes for call in calls) for calls in block.calls)
    if sent > most:
        what = f"{samples} samples: a rank sends {sent} bytes, expected at most {most}"
        why = ALL_SCORES if sent >= scores else TWO_NUMBERS
        raise Wrong(f"cost, {n} ranks", what, why)
    return f"cost, {n} ranks: {sent} bytes from each for {samples} samples; all scores: {scores}"


TWO_NUMBERS = "two numbers for each sample are enough, handed on by an all-gather"
ALL_SCORES = (
    "the letters are right, but all scores travel. Of each rank only its best can win: its score, "
    "and which letter it is"
)


EXERCISE = Exercise(
    "7.19", "likeliest", examine_likeliest,
    (
        "Which of this rank's letters can be the likeliest of all? What do the others have to "
        "know of it?",
        "scores.max(-1) gives the highest score and its place; the letter is first + place. "
        "Both travel, in a dtype that has all scores and all letters exactly.",
        "Ranks are in the order of the letters. argmax over the ranks' scores takes the first "
        "of equal ones, and tells whose letter counts, sample by sample.",
        "torch.stack([score.double(), first + place.double()]) travels with one "
        "dist.all_gather. Then letters.gather(0, scores.argmax(0, keepdim=True))[0].long().",
    ),
    lab="decoding",
)  # fmt: skip
