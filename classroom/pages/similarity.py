"""The search for answers to one exercise that are so alike that chance does not explain it well.

Two programs are compared by their pieces, runs of neighbouring tokens in which names that a student
has chosen do not count. A piece says nothing if it is in what was handed out, in the course's own
solution, or in the answers of many; all other pieces are a student's own.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from .tokens import tokens_of

# Chosen with the right answers in answers.py, of which no two may be found, as `tests/` shows.
LENGTH = 6  # tokens of a piece
LEAST_SHARED = 25  # own pieces that two answers need in common
LEAST_SHARE = 0.6  # of the pieces of the shorter one
MANY = 0.25  # a piece that more than this share of the class has is usual here
FEW = 3  # students who may have a piece, however small the class


class Pair(NamedTuple):
    """Two answers, by their places in the list, with the lines of each in which they are alike."""

    places: tuple[int, int]
    share: float
    shared: int
    lines: tuple[set[int], set[int]]


class Program:
    """An answer: its pieces, and the lines that each piece is in."""

    def __init__(self, source: str):
        tokens = tokens_of(source)
        self.lines: dict[tuple, set[int]] = {}
        for first in range(len(tokens) - LENGTH + 1):
            run = tokens[first : first + LENGTH]
            piece = tuple(token for token, _ in run)
            self.lines.setdefault(piece, set()).update(line for _, line in run)


def pairs(sources: Iterable[str], known: set[tuple]) -> list[Pair]:
    """Return the pairs of answers that are improbably alike, the most alike first.

    known  pieces that say nothing, from what was handed out and from the solution
    """
    programs = [Program(source) for source in sources]
    own, found = own_pieces(programs, known), []
    for one, other in combinations(range(len(programs)), 2):
        both = own[one] & own[other]
        share = len(both) / max(1, min(len(own[one]), len(own[other])))
        if len(both) >= LEAST_SHARED and share >= LEAST_SHARE:
            lines = tuple(lines_with(both, programs[place]) for place in (one, other))
            found.append(Pair((one, other), share, len(both), lines))
    return sorted(found, key=lambda pair: (-pair.share, -pair.shared, pair.places))


def own_pieces(programs, known: set[tuple]) -> list[set[tuple]]:
    """Return the pieces of each program that say something."""
    common = common_pieces(programs) | known
    return [set(program.lines) - common for program in programs]


def one_for_each(found: list[Pair]) -> list[Pair]:
    """Keep, of answers that are all alike, each next to the one most like it, not next to all."""
    group, kept = {}, []
    for pair in found:
        one, other = (group.get(place, {place}) for place in pair.places)
        if not one & other:
            kept.append(pair)
            both = one | other
            group |= dict.fromkeys(both, both)
    return kept


def pieces_of(*texts: str) -> set[tuple]:
    return {piece for text in texts for piece in Program(text).lines}


def common_pieces(programs) -> set[tuple]:
    times = Counter(piece for program in programs for piece in program.lines)
    most = max(FEW, MANY * len(programs))
    return {piece for piece, count in times.items() if count > most}


def lines_with(pieces, program) -> set[int]:
    return {line for piece in pieces for line in program.lines[piece]}
