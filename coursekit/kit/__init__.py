"""What exercises are made of: formulas, trials on ranks, and classes of mistakes."""

from ..protocol import Refused, Wrong
from .facts import Equals, Holds, Sends, complains, first_true, never
from .formula import Formula, first_that_fits
from .rank_exercise import RankExercise
from .rank_trials import GROUP, At, Trial, World, answering

__all__ = [
    "GROUP",
    "At",
    "Equals",
    "Formula",
    "Holds",
    "RankExercise",
    "Refused",
    "Sends",
    "Trial",
    "World",
    "Wrong",
    "answering",
    "complains",
    "first_that_fits",
    "first_true",
    "never",
]
