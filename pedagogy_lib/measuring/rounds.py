"""Times of several ways that took turns, and when a difference between them is one."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, quantiles

from ..basics.errors import need
from ..basics.units import brief, two_digits

FEWEST, MANY = 3, 5
UNDECIDED = "no difference seen here"


@dataclass(frozen=True)
class Ratio:
    """How many times as long one way took as another: median and quartiles over the rounds.

    Of fewer than five rounds, low and high are the lowest and the highest.
    """

    low: float
    median: float
    high: float
    margin: float = 0.1

    @property
    def word(self) -> str:
        """Return "quicker" or "slower" if the middle half of the rounds says so, by the margin."""
        if self.high < 1 / (1 + self.margin):
            return "quicker"
        return "slower" if self.low > 1 + self.margin else UNDECIDED

    def judge(self, quicker: str, slower: str) -> str:
        """Return one of two texts, by the word, or the word if no difference was seen."""
        return {"quicker": quicker, "slower": slower}.get(self.word, self.word)

    def __str__(self):
        low, middle, high = map(two_digits, (self.low, self.median, self.high))
        return f"{middle} times as long ({low} to {high})"


def compare_rounds(first, second, margin=0.1) -> Ratio:
    """Compare the seconds of two ways in the same rounds: is the first quicker than the second?

    Two ways that take turns meet the same disturbances, so each round is compared with itself. The
    result's `word` is "quicker" or "slower" only if the middle half of the rounds differ by more
    than the margin, a tenth; otherwise it is "no difference seen here". Of fewer than five rounds,
    all have to. One round decides nothing.

    first, second  seconds of each round, as in `run["label"].rounds`, without those that warm up
    Raises         LaunchError if there are fewer than three rounds, or not as many of both ways
    """
    first, second = list(first), list(second)
    need(
        len(first) == len(second) >= FEWEST,
        f"compare_rounds() takes as many rounds of both ways, at least {FEWEST}, not "
        f"{len(first)} and {len(second)}",
    )
    need(min(first + second) > 0, "compare_rounds() takes seconds greater than 0")
    ratios = sorted(a / b for a, b in zip(first, second))
    low, middle, high = quantiles(ratios, method="inclusive")
    if len(ratios) < MANY:
        low, high = ratios[0], ratios[-1]
    return Ratio(low, middle, high, margin)


def find_quickest(times, margin=0.1) -> list[str]:
    """Return the names of the ways that no other way is clearly quicker than, by `compare_rounds`.

    times    {name: seconds of each round}; the way of the lowest median comes first
    Returns  one name if one way is clearly the quickest; all names if no difference was seen
    """
    need(isinstance(times, Mapping) and times, f"find_quickest() takes ways, not {brief(times)}")
    ranked = sorted(times, key=lambda name: median(times[name]))
    return [name for name in ranked if not any(
        compare_rounds(times[other], times[name], margin).word == "quicker"
        for other in ranked if other != name)]  # fmt: skip
