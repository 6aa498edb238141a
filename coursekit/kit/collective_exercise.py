"""Trials of an answer that communicates, on real ranks, with inputs that leave no doubt.

Inputs are small whole numbers, different on every rank, so that sums are exact in every dtype and
in every order, and so that a wrong result shows which ranks' numbers went into it.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from pedagogy_lib.basics.closeness import close_in_float32
from pedagogy_lib.basics.errors import HangError

from ..protocol import Wrong
from .diagnoses import ALONE, OTHER_DTYPE, RAISED, is_float32_for, same
from .facts import ROUNDED
from .observed_calls import Requests
from .rank_trials import measure_answer, try_cases

LARGE = 250_000  # elements, where bytes are compared with a formula


@dataclass(frozen=True)
class Case:
    """The inputs and ranks on which an answer is tried.

    length   elements of a tensor, or of the shortest of several
    uneven   whether several tensors differ in length
    members  the ranks of the group that the answer is called with; None for the whole world
    """

    world_size: int
    length: int = 6
    dtype: torch.dtype = torch.float64
    shape: tuple[int, ...] | None = None
    uneven: bool = False
    root: int = 0
    members: tuple[int, ...] | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.members or tuple(range(self.world_size))

    @property
    def is_group(self) -> bool:
        return self.members is not None

    @property
    def n(self) -> int:
        return len(self.ranks)

    def __str__(self):
        who = f"{self.world_size} rank" + ("s" if self.world_size > 1 else "")
        if self.members:
            who = f"a group of ranks {list(self.members)} among {self.world_size}"
        shape = list(self.shape) if self.shape is not None else [self.length]
        dtype = str(self.dtype).removeprefix("torch.")
        uneven = ", uneven" if self.uneven else ""
        root = f", root {self.root}" if self.root else ""
        return f"{who}, {dtype}{shape}{uneven}{root}"


def numbers(rank, shape, dtype, salt=0) -> torch.Tensor:
    """Return whole numbers from 1 to 7, in a different sequence for each rank and salt."""
    generator = torch.Generator().manual_seed(1000 * salt + rank)
    return torch.randint(1, 8, shape, generator=generator).to(dtype)


def make_noncontiguous(x) -> torch.Tensor:
    """Return the same numbers in another memory order: not contiguous, if x has several dims."""
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def fine_numbers(rank, shape, dtype, salt=0) -> torch.Tensor:
    """Return `numbers`; in float64 with digits that a float32 lacks, and sums still exact."""
    whole = numbers(rank, shape, dtype, salt)
    return whole + whole.flip(-1) * 2.0**-28 if dtype == torch.float64 and whole.dim() else whole


class Task:
    """The inputs of a collective, and the way in which it is called.

    Tensors are a flat list of the same form on every rank.
    """

    def inputs(self, place, case) -> list[torch.Tensor]:
        """Return the tensors that the member at `place` of the group has before the call."""
        raise NotImplementedError

    def call(self, answer, tensors, case, group) -> list[torch.Tensor] | None:
        """Call the answer. Return the contents of its lists afterwards, or None if it gets no list.

        An answer gets its own lists, because only the values that it writes into the tensors count.
        """
        raise NotImplementedError

    def name_of(self, index, case) -> str:
        """Return the learner's name for a tensor of the list."""
        return "x"


def run_rank_trial(answer, group, case, task) -> tuple[list, list | None, tuple]:
    """Return a rank's tensors after a trial, its lists if they hold others, and what has moved."""
    tensors = task.inputs(dist.get_rank(group), case)
    given = list(tensors)
    addresses = [x.data_ptr() for x in given]
    dist.barrier(group)
    with measure_answer(), Requests() as requests:
        listed = task.call(answer, tensors, case, group)
    requests.need_waited()
    moved = MOVED if [x.data_ptr() for x in given] != addresses else ()
    if listed is not None and not are_the_same_tensors(given, listed):
        moved = LIST_CHANGED
    has_others = listed is not None and list(map(id, listed)) != list(map(id, tensors))
    return tensors, listed if has_others else None, moved


MOVED = (
    "{} has its numbers elsewhere",
    "the numbers are right, but the tensor lies in other memory than before, as after `x.data = …` "
    "or x.set_(…). Whoever else looks at the old memory, such as a view of x, does not see them. "
    "Write into it: by receiving into it, with += or with .copy_(…).",
)
LIST_CHANGED = (
    "{}'s list has changed",
    "the numbers are right, but the list is another one now: it belongs to the caller, and has to "
    "keep its tensors, in their order. For another order make a list of your own.",
)


def are_the_same_tensors(given, listed) -> bool:
    """Return whether a list still has these tensors, or views of them, in this order."""
    return len(listed) == len(given) and all(
        isinstance(b, torch.Tensor) and a.data_ptr() == b.data_ptr() and a.numel() == b.numel()
        for a, b in zip(given, listed)
    )


@dataclass
class CollectiveTrial:
    """The result of a case, by place in the group: lists of tensors, calls, bytes.

    right  takes all ranks' tensors before, a place and the case; see `Collective.truth`
    """

    task: Task
    right: Callable
    case: Case
    before: list[list[torch.Tensor]]
    after: list[list[torch.Tensor]]
    listed: list[list]  # like `after`, but the contents of the answer's lists
    moved: list[tuple]  # what has changed although it must not, and why that matters; or ()
    calls: list[list]
    sent_bytes: list[int]
    received_bytes: list[int]

    def truth(self, place) -> list:
        return self.right(self.before, place, self.case)

    def is_right(self, place) -> bool:
        pairs = zip(self.after[place], self.truth(place))
        return all(wanted is None or same(got, wanted) for got, wanted in pairs)

    def sends(self, place) -> list:
        return [call for call in self.calls[place] if call.name == "send"]


def yield_trials(task, right, answer, cases, explain_hang=lambda case, error: "", errors=()):
    """Yield the trial of each case; raise `Wrong` at the first that fails.

    explain_hang  takes the case and the HangError, and returns the diagnosis
    errors        {words of an error: what they mean in this exercise}; RAISED has the general ones
    """

    def explain(case, error):
        if isinstance(error, HangError):
            return explain_hang(case, error)
        if is_float32_for(case.dtype, str(error)):
            return OTHER_DTYPE
        if case.n == 1 and "Pair is not connected" in str(error):
            return ALONE
        known = [*dict(errors).items(), *RAISED.items()]
        return next((why for words, why in known if words in str(error)), "")

    for found in try_cases(run_rank_trial, answer, cases, explain, task):
        after, others, moved = map(list, zip(*found.values))
        listed = [own if of_list is None else of_list for own, of_list in zip(after, others)]
        before = [task.inputs(place, found.case) for place in range(found.case.n)]
        yield CollectiveTrial(
            task, right, found.case, before, after, listed, moved,
            found.calls, found.sent_bytes, found.received_bytes,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Collective:
    """An exercise that asks for a collective, written with messages from rank to rank.

    truth      takes all ranks' tensors before, a place in the group and the case; returns the
               tensors that the rank should have afterwards, with None for anything
    diagnoses  each takes a `CollectiveTrial` whose numbers are wrong, and returns the reason, or ""
    large      cases whose cost is examined
    need_cost  takes the trial of such a case; raises `Wrong`, or returns a line about its cost
    errors     {words of an error: what they mean in this exercise}
    """

    number: str = field(default="", kw_only=True)  # from its place in chapter.toml
    name: str
    task: Task
    truth: Callable
    cases: list[Case]
    diagnoses: list[Callable]
    large: list[Case]
    need_cost: Callable
    explain_hang: Callable
    hints: tuple[str, ...]
    lab: str | None = None
    errors: dict[str, str] = field(default_factory=dict)
    by_hand: str = ""  # the diagnosis of a collective of the backend's own, if not the usual

    def examine(self, answer):
        """Yield a line for each right case; raise `Wrong` at the first wrong one."""
        for trial in self.trials(answer):
            yield self.judge(trial)

    def trials(self, answer):
        """Yield the trial of each case, in order; raise `Wrong` where an answer fails."""
        everything = [*self.cases, *self.large]
        return yield_trials(
            self.task, self.truth, answer, everything, self.explain_hang, self.errors
        )

    def judge(self, trial) -> str:
        """Return a line about a right trial; raise `Wrong` for a wrong one."""
        used = uses_the_backends_own(trial)
        if used:
            raise Wrong(str(trial.case), "this is not written by hand", self.by_hand or used)
        compare(trial, self.diagnoses)
        is_large = any(trial.case is case for case in self.large)
        return self.need_cost(trial) if is_large else str(trial.case)

    def is_right(self, trial) -> bool:
        with contextlib.suppress(Wrong):
            self.judge(trial)
            return True
        return False


def compare(trial, diagnoses):
    """Raise `Wrong` at the first wrong or moved tensor, with the first diagnosis that fits."""
    for place in range(trial.case.n):
        for index, wanted in enumerate(trial.truth(place)):
            got = trial.after[place][index]
            if wanted is None or same(got, wanted):
                continue
            what = f"rank {trial.case.ranks[place]}, {difference(trial, index, got, wanted)}"
            if got.dtype == wanted.dtype == torch.float64 and close_in_float32(got, wanted):
                raise Wrong(str(trial.case), what, ROUNDED)
            why = next(filter(None, (diagnose(trial) for diagnose in diagnoses)), "")
            raise Wrong(str(trial.case), what, why)
    for rank, moved in zip(trial.case.ranks, trial.moved):
        if moved:
            raise Wrong(str(trial.case), moved[0].format(f"rank {rank}"), moved[1])


def uses_the_backends_own(trial) -> str:
    others = {call.name for calls in trial.calls for call in calls} - {"send", "recv"}
    if not others:
        return ""
    return (
        f"it calls dist.{sorted(others)[0]}, a collective of the backend's own. Here messages "
        "alone may travel: send and recv, isend and irecv."
    )


def total(before, index):
    """Return the sum over all ranks of one tensor of the list."""
    return sum(tensors[index] for tensors in before)


def difference(trial, index, got, wanted) -> str:
    name = trial.task.name_of(index, trial.case)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{name} is {kind_of(got)}, expected {kind_of(wanted)}"
    first = (got != wanted).nonzero()[0].tolist()
    at = f"{name}{first}" if first else name
    mine, right = got[tuple(first)].item(), wanted[tuple(first)].item()
    digits = 6 if f"{mine:.6g}" != f"{right:.6g}" else 12
    return f"{at} is {mine:.{digits}g}, expected {right:.{digits}g}"


def kind_of(x) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
