"""What exercises are made of: formulas, trials on ranks, and classes of mistakes."""

from .formula import Formula, first_that_fits

__all__ = ["Formula", "first_that_fits"]
