"""Where everything of a split matrix product is drawn."""

from typing import NamedTuple

from split_product_sizes import Matrix

WIDTH = 9.6  # this and all that follow are inches
NAMES_LEFT, LEFT, RIGHT = 0.12, 0.98, 8.0  # of the names, and of the equation
TOP, HEADS, BELOW = 0.42, 0.62, 0.26
ROW_GAP, MORE = 0.14, 0.22  # between rows; a row that stands for some ranks
SPACES = {"": 0, "sum": 0.52, "|": 0.34}  # in front of a matrix; for a sign:
SIGN = 0.2
HIGHEST, HIGH = 0.9, 3.4  # of one matrix, of all rows together
NARROWEST = 0.6  # the room of a matrix, for the words above it
FLATTEST = 0.16  # a matrix, however few its rows or columns are
MOST_ROWS = 6  # of ranks; with more, some in the middle are left out


class Slot(NamedTuple):
    """The room of one matrix, without the gap in front of it."""

    matrix: Matrix
    gap: float
    left: float  # of the slot; the matrix is in its middle
    width: float  # of the slot
    matrix_left: float
    middle: float

    @property
    def sign_x(self) -> float:
        """The middle of the gap."""
        return self.left - self.gap / 2


class Layout(NamedTuple):
    """Where things are: inches for each number of a matrix, slots, and rows.

    row    the height of a row
    ranks  which rank is in which row; None stands for several of them
    """

    scale: float
    slots: list[Slot]
    row: float
    ranks: list[int | None]

    @property
    def middle(self) -> float:
        """Of the row of all ranks together."""
        return TOP + HEADS + self.row / 2

    @property
    def first(self) -> float:
        """The top of rank 0."""
        return TOP + HEADS + self.row + BELOW

    def middles(self) -> list[float]:
        """Of each row of `ranks`."""
        heights = [MORE if rank is None else self.row for rank in self.ranks]
        tops = [self.first + sum(heights[:k]) + ROW_GAP * k for k in range(len(heights))]
        return [top + height / 2 for top, height in zip(tops, heights)]

    @property
    def bottom(self) -> float:
        return self.middles()[-1] + self.row / 2


def fit(equation, n, longest) -> Layout:
    """As large as possible, so that all have room; what width is left goes to the gaps."""
    ranks = select_ranks(n)
    scale = min(HIGHEST, HIGH / (len(ranks) + 1)) / longest
    gaps = [SPACES.get(matrix.sign, SIGN) for matrix in equation]
    while (free := RIGHT - LEFT - sum(gaps) - sum(slot_width(m, scale) for m in equation)) < 0:
        scale *= 0.97
    gaps = [gap + (free / (len(gaps) - 1) if place else 0) for place, gap in enumerate(gaps)]
    slots, x = [], LEFT
    for matrix, gap in zip(equation, gaps):
        slots.append(slot_of(matrix, gap, x + gap, scale))
        x += gap + slots[-1].width
    return Layout(scale, slots, max(scale * longest, 0.25), ranks)


def select_ranks(n) -> list[int | None]:
    """All of them; or the first and the last ones, and None for those between."""
    if n <= MOST_ROWS:
        return list(range(n))
    return [*range(MOST_ROWS - 2), None, n - 1]


def slot_of(matrix, gap, left, scale) -> Slot:
    width = slot_width(matrix, scale)
    matrix_left = left + (width - inches(matrix.columns, scale)) / 2
    return Slot(matrix, gap, left, width, matrix_left, left + width / 2)


def slot_width(matrix, scale) -> float:
    return max(NARROWEST, inches(matrix.columns, scale))


def inches(count, scale) -> float:
    return max(count * scale, FLATTEST)
