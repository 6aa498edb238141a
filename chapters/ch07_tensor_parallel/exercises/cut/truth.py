"""The right results, and the results of known mistakes."""

import torch

from .cases import span, strip

UNEVEN = (
    "parts of another length: chunk makes all but the last one equal, and perhaps fewer than n. "
    "part_sizes says how long each of them is"
)


def sizes(trial) -> list[int]:
    case = trial.case
    length = case.whole().shape[case.dim]
    return [span(length, place, trial.n, case.together)[1] for place in range(trial.n)]


def part_of(trial, place):
    case, n, x = trial.case, trial.n, trial.case.whole()
    length, size, dim = x.shape[case.dim], sizes(trial)[place], case.dim
    each, other = -(-length // n), -1 if dim == 0 else 0
    return strip(x, dim, *span(length, place, n, case.together)), {
        "`together` is not looked at: what belongs together is torn apart. part_sizes takes it":
            strip(x, dim, *span(length, place, n, 1)),
        UNEVEN: strip(x, dim, place * each, each),
        "the rest is on no rank: the first parts are longer. part_sizes says how long":
            strip(x, dim, place * (length // n), length // n),
        "a part begins where those before it end, sum(sizes[:rank]). They may be longer than this "
        "one: rank times its own size is too early": strip(x, dim, place * size, size),
        "every rank has the first part: which one is its own, dist.get_rank(group) says":
            strip(x, dim, 0, sizes(trial)[0]),
        "the last rank has the first part: the parts are in the order of the ranks":
            strip(x, dim, *span(length, n - 1 - place, n, case.together)),
        "this is filled up with zeros to the length of the longest part. A part is as long as "
        "part_sizes says": pad_part(x, case, place, n),
        "every rank has all of it": x,
        "every n-th one: a part is what lies together, one after another":
            x.movedim(dim, 0)[place::n].movedim(0, dim),
        "this is cut along another dim than the one that was asked for":
            x.tensor_split(n, other)[place],
    }  # fmt: skip


def pad_part(x, case, place, n):
    """Return a part with zeros up to the length of the longest part."""
    start, size = span(x.shape[case.dim], place, n, case.together)
    most = span(x.shape[case.dim], 0, n, case.together)[1]
    part = strip(x, case.dim, start, size)
    empty = strip(torch.zeros_like(x), case.dim, 0, most - size)
    return torch.cat([part, empty], case.dim)
