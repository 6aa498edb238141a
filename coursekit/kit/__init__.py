"""What exercises are made of: formulas, trials on ranks, and classes of mistakes."""

from .facts import Equals, Holds, Sends, complains, first_true, never
from .formula import Formula, first_that_fits
from .on_ranks import answering
from .rank_exercise import RankExercise
from .refused import Refused
from .trial import Trial
from .worlds import GROUP, At, World

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
    "answering",
    "complains",
    "first_that_fits",
    "first_true",
    "never",
]
