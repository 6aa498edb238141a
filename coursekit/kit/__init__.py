"""The building blocks of exercises: formulas, trials on ranks, and classes of mistakes."""

from ..protocol import Rejection, Wrong
from .facts import Equals, Holds, Sends, complains, first_true, never
from .formula import Formula, first_that_fits
from .rank_exercise import RankExercise
from .rank_trials import GROUP, RankCase, Trial, World, measure_answer

__all__ = [
    "GROUP",
    "Equals",
    "Formula",
    "Holds",
    "RankCase",
    "RankExercise",
    "Rejection",
    "Sends",
    "Trial",
    "World",
    "Wrong",
    "complains",
    "first_that_fits",
    "first_true",
    "measure_answer",
    "never",
]
