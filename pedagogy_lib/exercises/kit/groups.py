"""Answers that are tried in groups of ranks, and what they communicate there."""

import contextlib
import warnings

import torch.distributed as dist

from ...basics.torch_private import OperatorMode
from ...course.checking import Wrong, try_on_ranks
from ...measuring.bytes_of_calls import RULES, calls_of
from .on_ranks import IN_A_GROUP
from .refused import Refused
from .worlds import explain_by

WORLDS = [[(0, 1, 2)], [(0,), (1, 2)]]  # groups that take part, each by itself
PASSED_BY = (
    "the numbers are right, but by chance: autograd does not know dist.all_reduce and passes it "
    "by, with a warning, and later versions of PyTorch will not. AllReduce.apply, or leave, tells "
    "it what the backward is"
)


class Calls(OperatorMode):
    """The communication calls that are made under it."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.made += calls_of(func, args)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def noting_passed():
    """Gives a list of the operators that a backward in here passes by; torch's warnings go there.

    Of a call on a tensor with a gradient torch warns in the backward alone.
    """
    passed = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield passed
    for warning in found:
        operator, unknown, _ = str(warning.message).partition(": an autograd kernel was not")
        if unknown:
            passed.append(operator)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def need_known(case, passed):
    """Raise `Wrong` if the backward has passed by something on a rank.

    passed  of each rank: the list of noting_passed
    """
    for rank, operators in enumerate(passed):
        if operators:
            what = f"rank {rank}: torch warns of {operators[0]} in the backward"
            raise Wrong(case, what, PASSED_BY)


def in_groups(work, answer, groups):
    """On a rank: `work(answer, group)` in the one of these groups that it belongs to."""
    if len(groups) == 1:
        return work(answer, None)
    made = [dist.new_group(list(members)) for members in groups]
    return next(work(answer, g) for g, of in zip(made, groups) if dist.get_rank() in of)


def try_groups(groups, work, answer, errors, mismatch, judge_raised=None):
    """Yields a name for each group, and what its members have found.

    errors        {words of an error: what they mean}
    mismatch      what it means that ranks lose each other
    judge_raised  takes the error of a rank, if that has a `case`, and raises a `Wrong` of its own
    """
    names = [name_of(members, groups) for members in groups]
    case = " and ".join(names)
    known = explain_by(errors, IN_A_GROUP if len(groups) > 1 else mismatch)

    def explain(error):
        cause = getattr(error, "exception", None)
        if isinstance(cause, Refused):
            raise Wrong(case, f"rank {error.rank}: {cause.what}", cause.why)
        if judge_raised is not None and hasattr(cause, "case"):
            judge_raised(error)
        return known(error)

    size = sum(map(len, groups))
    run = try_on_ranks(case, in_groups, work, answer, groups, world_size=size, explain=explain)
    return zip(names, ([run.values[rank] for rank in members] for members in groups))


def name_of(members, groups) -> str:
    if len(groups) == 1:
        return f"{len(members)} ranks"
    return f"a group of ranks {list(members)}" if len(members) > 1 else f"rank {members[0]} alone"


def parts_of(x, n, dim=0):
    """What each of n ranks has."""
    return x.tensor_split(n, dim)
