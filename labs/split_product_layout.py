# Built from chapters/ch07_tensor_parallel/labs/split_product_layout.py by `make build`.
"""The layout of the picture of a split matrix product."""

from typing import NamedTuple

from split_product_sizes import Matrix

WIDTH = 9.6  # this and the sizes that follow are in inches
NAMES_LEFT, LEFT, RIGHT = 0.12, 0.98, 8.0  # left edge of the names; edges of the equation
TOP, HEADS, BELOW = 0.42, 0.62, 0.26
ROW_GAP, MORE = 0.14, 0.22  # between rows; height of a row that stands for several ranks
SPACES = {"": 0, "sum": 0.52, "|": 0.34}  # in front of a matrix; with any other sign:
SIGN = 0.2
HIGHEST, HIGH = 0.9, 3.4  # the most height of one matrix, and of all rows together
NARROWEST = 0.6  # the least room of a matrix, for the words above it
FLATTEST = 0.16  # the least side of a matrix, however few rows or columns it has
MOST_ROWS = 6  # the most rows of ranks; beyond that, some in the middle are left out


class Slot(NamedTuple):
    """The room of one matrix, without the gap in front of it."""

    matrix: Matrix
    gap: float
    left: float  # of the slot, in whose middle the matrix is
    width: float  # of the slot
    matrix_left: float
    middle: float

    @property
    def sign_x(self) -> float:
        """The horizontal middle of the gap."""
        return self.left - self.gap / 2


class Layout(NamedTuple):
    """The scale in inches per number of a matrix, and the positions of slots and rows.

    row    the height of a row
    ranks  the rank in each row; None stands for several ranks
    """

    scale: float
    slots: list[Slot]
    row: float
    ranks: list[int | None]

    @property
    def middle(self) -> float:
        """The vertical middle of the row for all ranks together."""
        return TOP + HEADS + self.row / 2

    @property
    def first(self) -> float:
        """The top of rank 0's row."""
        return TOP + HEADS + self.row + BELOW

    def middles(self) -> list[float]:
        """Return the vertical middle of each row of `ranks`."""
        heights = [MORE if rank is None else self.row for rank in self.ranks]
        tops = [self.first + sum(heights[:k]) + ROW_GAP * k for k in range(len(heights))]
        return [top + height / 2 for top, height in zip(tops, heights)]

    @property
    def bottom(self) -> float:
        return self.middles()[-1] + self.row / 2


def fit(equation, n, longest) -> Layout:
    """Return the largest layout in which everything has room; spare width goes to the gaps."""
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
    """Return all ranks or, if they are too many, the first ones, None and the last one."""
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
