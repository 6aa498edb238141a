"""The right results, and the results of known mistakes."""

import cmath

import torch

from coursekit.kit.tables import tabulate

from .cases import DTYPES, draw_heads, places_of


def truth(x, places, base=10_000.0):
    """Return x rotated number by number: a pair is a complex number, times one of length 1."""
    half, y = x.shape[-1] // 2, x.new_empty(x.shape)
    for row, turned in zip(x.reshape(-1, *x.shape[-2:]), y.view(-1, *x.shape[-2:])):
        for at, place in enumerate(places.tolist()):
            for i in range(half):
                pair = complex(row[at, i], row[at, half + i])
                pair *= cmath.exp(1j * place * base ** (-i / half))
                turned[at, i], turned[at, half + i] = pair.real, pair.imag
    return y


def calls_of_check():
    """Return the arguments of each rotation that the check compares with beyond its cases."""
    far = [
        (draw_heads(22, 3, 2, 8).to(dtype).double(), places_of(2001, 99_999)) for dtype in DTYPES
    ]
    rounded = draw_heads(22, 4, 3, 16).bfloat16().double(), places_of(4, 5, 1000)
    return [*far, rounded, (draw_heads(21, 2, 3, 4), -places_of(4, 5, 6))]


@tabulate(calls_of_check)
def rotated(x, places):
    """Return the right result of such a rotation; in a handout, a table has it."""
    return truth(x, places)


def rotate_with(speeds=None, places_from=None, pair=None, tables=None):
    """Return a wrong answer that differs from the right one in one of its steps.

    speeds       takes half of a head's size and base
    places_from  takes places and x
    pair         takes the halves, cosines and sines, and returns the new halves
    tables       takes angles, and returns cosines and sines
    """

    def rotate(x, places, base=10_000.0):
        half = x.shape[-1] // 2
        if speeds is None:
            of_pairs = base ** (-torch.arange(half, dtype=torch.float64) / half)
        else:
            of_pairs = speeds(half, base)
        at = places if places_from is None else places_from(places, x)
        angles = at.to(of_pairs).unsqueeze(-1) * of_pairs
        cos, sin = (angles.cos(), angles.sin()) if tables is None else tables(angles)
        a, b = x.chunk(2, -1)
        if pair is None:
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return torch.cat(pair(a, b, cos, sin), -1)

    return rotate


def as_neighbours(halves):
    """Return the numbers of two halves in turn."""
    return torch.stack(halves.chunk(2, -1), -1).flatten(-2)


def from_neighbours(x):
    return torch.cat([x[..., ::2], x[..., 1::2]], -1)


def rotate_neighbours(x, places, base=10_000.0):
    return as_neighbours(rotate_with()(from_neighbours(x), places, base))


def rotate_unpaired(x, places, base=10_000.0):
    size = x.shape[-1]
    angles = places.double().unsqueeze(-1) * base ** (-2 * torch.arange(size).double() / size)
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


def powers(exponents):
    """Return speeds(half, base) whose exponents are those of numbers 0, 1, … and half."""
    return lambda half, base: base ** exponents(torch.arange(half, dtype=torch.float64), half)


MISTAKES = [
    ("the places are not used: this counts from 0 on. A rank that has a piece of the context gives "
     "its places, which begin elsewhere or have a gap",
     rotate_with(places_from=lambda places, x: torch.arange(x.shape[-2]))),
    ("places is taken as if it had no gaps. Take the numbers in it, one after another",
     rotate_with(places_from=lambda places, x: places[0] + torch.arange(x.shape[-2]))),
    ("these pairs are neighbours, numbers 2i and 2i + 1. Asked are the pairs of the transformers "
     "package: number i of the first half, and number i of the second half", rotate_neighbours),
    ("the pairs are read in one layout and written in the other: number i of the first half, and "
     "number i of the second half, are a pair before and after",
     lambda *call: as_neighbours(rotate_with()(*call))),
    ("the pairs are read in one layout and written in the other: number i of the first half, and "
     "number i of the second half, are a pair before and after",
     lambda x, *call: rotate_with()(from_neighbours(x), *call)),
    ("place 0 is rotated, and should stay as it is: places are counted from 0",
     rotate_with(places_from=lambda places, x: places + 1)),
    ("places lie along the last dimension but one, and heads before them: the angles are "
     "(places, size / 2)", rotate_with(places_from=lambda places, x: places.unsqueeze(-1))),
    ("both numbers of a pair have the same angle: the speeds of the first half are those of the "
     "second half, too", rotate_unpaired),
    ("the pairs are rotated the other way round, by minus the angle: (a, b) becomes "
     "(a cos - b sin, b cos + a sin)",
     rotate_with(pair=lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin))),
    ("this is no rotation, since both new numbers have a plus: (a, b) becomes "
     "(a cos - b sin, b cos + a sin)",
     rotate_with(pair=lambda a, b, cos, sin: (a * cos + b * sin, b * cos + a * sin))),
    ("only the first half has been changed: both numbers of a pair change",
     rotate_with(pair=lambda a, b, cos, sin: (a * cos - b * sin, b))),
    ("the second half is computed from the new first half: keep both old numbers until both new "
     "ones are known", rotate_with(pair=lambda a, b, cos, sin: (
         a * cos - b * sin, b * cos + (a * cos - b * sin) * sin))),
    ("cosine and sine are swapped: at place 0 nothing is rotated, so its cosine is 1",
     rotate_with(tables=lambda angles: (angles.sin(), angles.cos()))),
    ("the exponent is half as large as it should be: -2 i / size, where size is that of a head, is "
     "-i / (size / 2)", rotate_with(speeds=powers(lambda i, half: -i / (2 * half)))),
    ("the exponent is twice as large as it should be: -2 i / size, where size is that of a whole "
     "head", rotate_with(speeds=powers(lambda i, half: -2 * i / half))),
    ("the exponent has no minus: pair 0 is the fastest, and later pairs rotate more slowly",
     rotate_with(speeds=powers(lambda i, half: i / half))),
    ("pairs are counted from 1: pair 0 is rotated by p itself",
     rotate_with(speeds=powers(lambda i, half: -(i + 1) / half))),
    ("all pairs are rotated by the same angle: it is p * base ** (-2 i / size) for pair i",
     rotate_with(speeds=powers(lambda i, half: 0 * i))),
    ("the angles are taken as degrees: p times a speed is in radians, as cos and sin take it",
     rotate_with(tables=lambda angles: (angles.deg2rad().cos(), angles.deg2rad().sin()))),
    ("base is not used: 10,000 is only its default",
     rotate_with(speeds=lambda half, base: 1e4 ** (-torch.arange(half).double() / half))),
]  # fmt: skip
