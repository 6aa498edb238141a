# Built from chapters/ch07_tensor_parallel/labs/pair_frames.py by `make build`.
"""The frames of a `PairFilm`, and how they are made from the shots of all ranks."""

from dataclasses import dataclass, field

import torch
from placements import LocalMatrix, join_parts, place_parts

MATRICES = ("X", "A", "H", "B", "Y")
VALUES, GRADIENTS = KINDS = ("values", "gradients")


@dataclass
class PairFrame:
    """The matrices that one rank had right after an event.

    event      the event, in words
    new        (kind, matrix) of each new matrix: kinds are in `KINDS`, matrices in `MATRICES`
    sent       for each communication call since the frame before: its name, and the bytes that
               this rank sent for it, by the formulas of `bytes_of_calls`
    values     {matrix: LocalMatrix} of the values that exist already
    gradients  {matrix: LocalMatrix} of the gradients that exist already
    inner      kinds in which H is still X A: values before the activation, gradients after it
    """

    event: str
    new: list[tuple[str, str]]
    sent: list[tuple[str, int]]
    values: dict[str, LocalMatrix]
    gradients: dict[str, LocalMatrix]
    inner: frozenset[str] = frozenset()


@dataclass
class PairFilm:
    """A film of Y = f(X A) B, forward and backward, on one rank; H is X A, and then f(X A)."""

    rank: int
    n: int
    frames: list[PairFrame] = field(default_factory=list)


@dataclass
class Shot:
    """A matrix that is new on a rank; `known_as` is its name in `compute_expected`."""

    event: str
    kind: str
    matrix: str
    tensor: torch.Tensor
    known_as: str
    sent: list[tuple[str, int]]


@dataclass
class Reel:
    """The shots and the parameters that one rank sends to the others."""

    shots: list[Shot]
    a: torch.Tensor
    b: torch.Tensor
    inner_bias: torch.Tensor | None
    bias: torch.Tensor | None
    are_cut: bool

    @classmethod
    def record(cls, camera):
        column, row = camera.column, camera.row
        own = (column.weight.T, row.weight.T, column.bias, row.bias)
        own = [None if tensor is None else tensor.detach().cpu().clone() for tensor in own]
        are_cut = hasattr(column.weight, "cut_dim") and hasattr(row.weight, "cut_dim")
        return cls(camera.shots, *own, are_cut)


def compute_expected(reels, activation, gradient) -> dict:
    """Return {(kind, name): matrix} of one process that has all of A and B.

    If the ranks' parts of A and B do not fit together, the process has rank 0's parts instead.
    """
    first, are_cut = reels[0], reels[0].are_cut
    a = join_parts([reel.a for reel in reels], 1, are_cut)
    b = join_parts([reel.b for reel in reels], 0, are_cut)
    if a.shape[1] != b.shape[0]:
        a, b = first.a, first.b
    x, a, b = (tensor.clone().requires_grad_() for tensor in (first.shots[0].tensor, a, b))
    inner = x @ a
    if first.inner_bias is not None:
        inner = inner + join_parts([reel.inner_bias for reel in reels], 0, are_cut)
    hidden = activation(inner)
    product = hidden @ b
    y = product if first.bias is None else product + first.bias
    made = {"X": x, "A": a, "B": b, "XA": inner, "H": hidden, "HB": product, "Y": y}
    gradients = torch.autograd.grad(y, list(made.values()), gradient)
    found = {(VALUES, name): tensor.detach() for name, tensor in made.items()}
    return found | {(GRADIENTS, name): tensor for name, tensor in zip(made, gradients)}


def find_local_matrix(rank, shots, expected) -> LocalMatrix:
    """Return a rank's part of a new matrix; its placement is None if other ranks' shots differ."""
    mine = shots[rank]
    if all((shot.kind, shot.matrix) == (mine.kind, mine.matrix) for shot in shots):
        parts = [shot.tensor for shot in shots]
        return place_parts(parts, expected[mine.kind, mine.known_as])[rank]
    shape = tuple(mine.tensor.shape)
    return LocalMatrix(tuple(map(tuple, mine.tensor.tolist())), None, shape, (0, 0), False)


def add_frame(film, shot, held):
    """Add a shot to the last frame if that shows the same event, else to a new frame."""
    is_first = not film.frames or film.frames[-1].event != shot.event
    if is_first:
        before = film.frames[-1] if film.frames else PairFrame("", [], [], {}, {})
        film.frames.append(
            PairFrame(shot.event, [], [], dict(before.values), dict(before.gradients), before.inner)
        )
    frame = film.frames[-1]
    (frame.values if shot.kind == VALUES else frame.gradients)[shot.matrix] = held
    frame.new.append((shot.kind, shot.matrix))
    if shot.matrix == "H":
        kind = {shot.kind}
        frame.inner = frame.inner | kind if shot.known_as == "XA" else frame.inner - kind
    frame.sent += shot.sent


def names_of_calls(names) -> str:
    """Return the names of calls in words, each once, such as `all-reduce and all-gather`."""
    known = {"send": "messages with parts"}  # of a hand-written ring
    return " and ".join(dict.fromkeys(known.get(name, name.replace("_", "-")) for name in names))
