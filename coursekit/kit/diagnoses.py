"""Descriptions of a wrong result: where it differs, and which misconception it shows."""

import itertools
import re
from collections.abc import Mapping
from numbers import Real

import torch

from pedagogy_lib.basics.closeness import close, ensure_tensor, first_off
from pedagogy_lib.basics.units import brief

from ..protocol import Wrong


def difference(called, got, wanted, same=close) -> str:
    """Describe how a value with this name is wrong: `the bias at [2] is 3, expected 6`.

    called  the value's name; that of a dict may end in "after" or "for", else "of" is added
    same    takes two values, and returns whether they are equal
    """
    if isinstance(wanted, Mapping) and isinstance(got, Mapping) and got.keys() == wanted.keys():
        return difference_by_name(called, got, wanted, same)
    if are_lists(got, wanted):
        first = next(k for k, pair in enumerate(zip(got, wanted)) if not same(*pair))
        return difference(f"{called}[{first}]", got[first], wanted[first], same)
    return f"{called} {first_difference(got, wanted)}"


def difference_by_name(called, got, wanted, same) -> str:
    wrong = [name for name in wanted if not same(got[name], wanted[name])]
    fine = [name for name in wanted if name not in wrong]
    first, *others = wrong
    led = called if called.endswith(LEADS) else f"{called} of"
    that = f"that {led.split()[-1]}"
    told = difference(f"{led} {first}", got[first], wanted[first], same)
    if others:
        told += f"; wrong is {that} {some_of(others)}, too"
    return told + (f"; right is {that} {some_of(fine)}" if fine else "")


def some_of(names) -> str:
    """Join up to six names, and add how many more there are."""
    more = len(names) - 6
    return ", ".join(names[:6]) + (f" and {more} more" if more > 0 else "")


LEADS = (" after", " for")  # as in "the gradient after the first call"


def are_lists(got, wanted) -> bool:
    kinds = (list, tuple)
    return isinstance(got, kinds) and isinstance(wanted, kinds) and len(got) == len(wanted)


def first_difference(got, wanted) -> str:
    if kind_of(got) != kind_of(wanted) or not is_numeric(wanted):
        return f"is {kind_of(got)}, expected {kind_of(wanted)}"
    got, wanted = ensure_tensor(got), ensure_tensor(wanted)
    first = first_off(got, wanted)
    at = f"at {list(first)} " if first else ""
    return f"{at}is {got[first].item():.8g}, expected {wanted[first].item():.8g}"


def kind_of(x) -> str:
    """Return `float64[2, 3]`, `a number`, or the value itself, as far as it fits."""
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    return "a number" if isinstance(x, Real) and not isinstance(x, bool) else brief(x, 60)


def is_numeric(x) -> bool:
    return isinstance(x, (torch.Tensor, Real))


def ratio(got, wanted) -> float | None:
    """Return the factor from `wanted` to `got`; None if there is none, or they are not numeric."""
    if not (is_numeric(got) and is_numeric(wanted)):
        return None
    got, wanted = ensure_tensor(got).flatten(), ensure_tensor(wanted).flatten()
    are_alike = got.shape == wanted.shape and got.dtype == wanted.dtype
    square = (wanted @ wanted).item() if are_alike else 0.0
    factor = (got @ wanted).item() / square if square else 0.0
    return factor if factor and close(got, factor * wanted) else None


def recognise(got, guesses) -> str:
    """Return the first sentence in {sentence: the value of that misconception} that fits, or ""."""
    return next((why for why, wrong in guesses.items() if close(got, wrong)), "")


def format_numbers(numbers) -> str:
    return ", ".join(f"{x:.4g}" for x in numbers.tolist())


def same(a, b) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def contributions(total, parts) -> tuple[int, ...] | None:
    """Return how often each of `parts` went into `total`, 0 to 2 times; None if no way fits."""
    for times in itertools.product(range(3), repeat=len(parts)):
        if same(total, sum((t * p for t, p in zip(times, parts)), torch.zeros_like(total))):
            return times
    return None


def describe_contributions(times) -> str:
    """Describe contributions as in `rank 1 is missing, rank 2 counts twice`."""
    missing = [f"rank {place} is missing" for place, t in enumerate(times) if t == 0]
    twice = [f"rank {place} counts twice" for place, t in enumerate(times) if t == 2]
    return ", ".join(missing + twice)


def ranks_text(places) -> str:
    places = list(places)
    return ("rank " if len(places) == 1 else "ranks ") + ", ".join(map(str, places))


NO_DIMENSION = "a tensor without dimensions cannot be split: x.view(-1) has one."
RAISED = {  # words of an error: what they mean here
    "Group rank": "send and receive name a peer by its number within the group, from 0 to n - 1. "
    "This is none of these: is it a rank in the world? And are rank and n those of the group, "
    "get_rank(group) and get_world_size(group)?",
    "Global rank": "`dst` and `src` are ranks in the world, even with a group; `group_dst` and "
    "`group_src` are numbers within the group",
    "offset < this->size. 0 vs 0": "over Gloo, an empty tensor cannot be received from just "
    "anybody: name the rank that it comes from",
    "EnforceNotMet": "the two sides of a message differ in length. What is received into has to be "
    "as long as what comes: chunks may differ by an element.",
    "must match the size of": "what comes in is as long as the tensor that it is for: pieces may "
    "differ in length.",
    "SIGSEGV": "the numbers of the ranks go from 0 to n - 1. Does a message name another one as "
    "its peer? (rank ^ k makes pairs only where n is a power of two.)",
    "Pair is not connected": "a rank sends to itself, or receives from itself. What stays on a "
    "rank is copied, and needs no message.",
    "out of range": "a number is too large: of a chunk, if there are fewer than n (x.chunk(n) may "
    "make fewer; tensor_split makes n); of a rank, if % n is missing, or if rank ^ k makes pairs, "
    "which it does only where n is a power of two.",
    "does not support item assignment": "`chunks[i] += …` also puts the result into the list, and "
    "a tuple takes nothing: tensor_split, chunk and split give tuples. "
    "list(x.view(-1).tensor_split(n)) is a list.",
    "expected a non-empty list": "an empty bucket is reduced. There is nothing in it if there are "
    "no tensors, or if the first one alone is larger than bucket_bytes.",
    "0-dim": NO_DIMENSION,
    "of a 0-d tensor": NO_DIMENSION,
    "zero-dimensional": NO_DIMENSION,
    "expected at least a 1-dimensional tensor": NO_DIMENSION,
    "expects at least a 1-dimensional tensor": NO_DIMENSION,
}


ALONE = (
    "with several ranks the numbers are right. One rank alone has nobody to send to: n - 1 steps "
    "are none then, and what it has is the result. (n steps are always one too many.)"
)
LENGTHS = re.compile(r"op.preamble.length <= op.nbytes. (\d+) vs (\d+)")  # in an error of Gloo
OTHER_DTYPE = (
    "as many numbers as come have no room here: a tensor of your own, such as "
    "torch.empty(x.shape), is of float32 unless told otherwise. torch.empty_like(x) has the dtype "
    "of x"
)


def is_float32_for(dtype, text) -> bool:
    """Return whether a message did not fit because the other side's numbers are float32."""
    lengths = LENGTHS.search(text)
    coming, room = map(int, lengths.groups()) if lengths else (0, 0)
    return bool(room) and dtype != torch.float32 and coming * 4 == room * dtype.itemsize


MAY_FAIL = True  # False in the course's tests, where a failing diagnosis is a bug to mend


def run_diagnosis(diagnosis, *args, otherwise=""):
    """Return the result of a diagnosis, or `otherwise` if it fails on such an answer."""
    try:
        return diagnosis(*args)
    except Wrong:
        raise
    except Exception:
        if not MAY_FAIL:
            raise
        return otherwise
