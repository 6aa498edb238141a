"""The overhead of a block of work: ratios of neighbouring times, and the margin of their median."""

from dataclasses import dataclass
from math import ceil, floor, sqrt
from statistics import median, quantiles


@dataclass
class Overhead:
    """The overhead in percent of the block alone, one figure per round."""

    percents: list[float]

    @property
    def median(self) -> float:
        return median(self.percents)

    @property
    def margin(self) -> float:
        """Half the interval that holds the true median in 95 of 100 such runs.

        Source  order statistics: the number of n figures that are below the median is binomial
        """
        figures, n = sorted(self.percents), len(self.percents)
        low, high = floor((n - 1.96 * sqrt(n)) / 2), ceil((n + 1.96 * sqrt(n)) / 2)
        return (figures[min(high, n - 1)] - figures[max(low, 0)]) / 2

    def __str__(self):
        return f"{self.median:+.1f} ± {self.margin:.1f} %"

    def middle_half(self) -> str:
        """Return the range of the middle half of the rounds, in percent."""
        low, _, high = quantiles(self.percents, n=4)
        return f"{low:+.1f} … {high:+.1f} %"


def compute_overhead(rounds, variant) -> Overhead:
    """Return a variant's overhead.  rounds  lists of seconds by variant, the block alone first"""
    return Overhead([100 * (times[variant] / times[0] - 1) for times in rounds])
