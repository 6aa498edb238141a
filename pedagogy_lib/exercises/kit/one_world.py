"""Several cases of an exercise, tried one after another in one world of three ranks."""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...basics.torch_private import is_in_storage
from ...course.checking import Wrong, try_on_ranks
from .on_ranks import IN_A_GROUP
from .outcomes import NO_RETURN
from .refused import Refused
from .worlds import explain_by

WORLD = 3
GROUPS = ((0,), (1, 2))  # at the same time; in the second, places are not the ranks of the world
SAME_CALLS = "every rank of the group makes the same calls, with tensors of the same size"


@dataclass(frozen=True)
class Case:
    """What an answer is tried on: all ranks together, or each in its group."""

    title: str
    in_groups: bool = False

    def members(self, rank) -> tuple[int, ...]:
        everybody = tuple(range(WORLD))
        return next(of for of in GROUPS if rank in of) if self.in_groups else everybody

    def seat(self, rank) -> tuple[int, int]:
        """A rank's place in its group, and how many these are."""
        members = self.members(rank)
        return members.index(rank), len(members)

    def __str__(self):
        where = "groups of ranks [0] and [1, 2]" if self.in_groups else f"{WORLD} ranks"
        return f"{where}, {self.title}"


def try_cases(work, answer, cases, meanings, judge=None):
    """Returns the run; of each rank, what `work(answer, group, case)` has found in each case.

    judge  takes a case and {rank: what it has found}, and raises `Wrong`: for the cases before
           the one in which a rank raises an error
    """
    explain = explain_case(meanings, cases, judge)
    title = f"{WORLD} ranks"
    return try_on_ranks(title, each_case, work, answer, cases, world_size=WORLD, explain=explain)


def each_case(work, answer, cases):
    groups = [dist.new_group(list(members)) for members in GROUPS]
    own = next(group for group, of in zip(groups, GROUPS) if dist.get_rank() in of)
    found = []
    for case in cases:
        try:
            found.append(work(answer, own if case.in_groups else None, case))
        except Exception as error:
            error.case, error.before = case, found  # so that whoever explains it knows where it was
            raise
    return found


def found_in(run, cases):
    """Yields each case with what its ranks have found."""
    for number, case in enumerate(cases):
        yield case, [of_rank[number] for of_rank in run.values]


def explain_case(meanings, cases, judge=None):
    """As explain_by; the groups come after what was right in the whole world."""

    def explain(error):
        cause = getattr(error, "exception", None)
        case = getattr(cause, "case", None)
        if judge is not None and case is not None:
            for earlier, of in zip(cases, cause.before):
                judge(earlier, {error.rank: of})
        if isinstance(cause, Refused):
            raise Wrong(str(case), f"rank {error.rank}: {cause.what}", cause.why)
        why = explain_by(meanings, SAME_CALLS)(error)
        if case is not None:
            raise Wrong(str(case), str(error), IN_A_GROUP if case.in_groups else why)
        return why

    return explain


def need_tensor(got, who):
    if not isinstance(got, torch.Tensor):
        why = NO_RETURN if got is None else "asked is one tensor"
        kind = "None" if got is None else f"something of type {type(got).__name__}"
        raise Refused(f"{who} gave {kind}", why)


def fitting(got, tables) -> str:
    """The first sentence whose guess is what every rank has got; "" if there is none.

    tables  of each rank: {sentence: what it would have}
    """
    tables = list(tables)
    fits = lambda why: all(close(g, table[why]) for g, table in zip(got, tables))  # noqa: E731
    return next(filter(fits, tables[0]), "")


def need_traffic(case, calls, when, most, why):
    """Raise `Wrong` if a rank has sent more than `most` bytes, or has made a call for nothing.

    calls  of each rank
    """
    for rank, of in enumerate(calls):
        sent = sum(call.sent_bytes for call in of)
        if sent > most or (of and not most):
            names = ", ".join(sorted({call.name for call in of}))
            what = f"rank {rank} sends {sent} bytes in the {when} ({names}), expected {most:g}"
            raise Wrong(f"cost, {case}", what, why)


def ring_bytes(tensor_bytes, n=WORLD) -> float:
    """What each rank sends in an all-reduce."""
    return 2 * (n - 1) * tensor_bytes / n


def in_memory_of(x, other) -> bool:
    return is_in_storage(x, other.untyped_storage())
