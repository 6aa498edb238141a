"""A film of a forward and a backward through two linear layers, of which each rank has a part.

It looks on from outside, through hooks and around the layers' `enter` and `leave`. What ranks have
of each matrix is found by comparing their films, and with what one process computes.
"""

import contextlib
import functools
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ..basics.errors import LaunchError
from ..basics.torch_private import OperatorMode
from ..measuring.bytes_of_calls import RULES, Call, calls_of
from ..measuring.placements import Held, joined, placed

MATRICES = ("X", "A", "H", "B", "Y")
VALUES, GRADIENTS = KINDS = ("values", "gradients")


@dataclass
class PairFrame:
    """What one rank had when something had just happened.

    event      what has happened
    new        (kind, matrix) of what is new: a kind is one of `KINDS`, a matrix of `MATRICES`
    sent       for each communication call since the frame before: its name, and the bytes that
               this rank sent for it, by the formulas of `calls.py`
    values     {matrix: Held}, of those that exist already
    gradients  the same
    inner      kinds in which H is still X A: values before the activation, gradients after it
    """

    event: str
    new: list[tuple[str, str]]
    sent: list[tuple[str, int]]
    values: dict[str, Held]
    gradients: dict[str, Held]
    inner: frozenset[str] = frozenset()


@dataclass
class PairFilm:
    """Y = f(X A) B, forward and backward, on one rank; H is X A, and then f(X A)."""

    rank: int
    n: int
    frames: list[PairFrame] = field(default_factory=list)


def film_pair(column, row, x, activation=F.relu, gradient=None) -> PairFilm:
    """Inside of a rank: compute row(activation(column(x))) and its backward; returns the film.

    All ranks take part, and tell each other at the end what they have had. Gradients are added
    to the layers' parameters, as in any backward.

    column      as ColumnLinear of labs/tensor_parallel.py: it has `weight`, its part of A as
                nn.Linear keeps it, `bias`, `group`, and calls `enter(x, group)`
    row         as RowLinear: it has `weight`, its part of B, `bias`, `group`, and calls
                `leave(y, group)`
    x           (rows, inputs)
    activation  computes each number by itself
    gradient    of the output; ones, unless told otherwise
    Raises      LaunchError if these are other layers, or x is no matrix
    """
    check(column, row, x)
    camera = Camera(column, row, x)
    with contextlib.ExitStack() as until_the_end:
        camera.watch(until_the_end.enter_context)
        inner = column(camera.x)
        camera.note("forward: X times each rank's columns of A", VALUES, "H", inner, "XA")
        camera.on_gradient(inner, "backward: gradient of XA, through f", "H", "XA")
        hidden = activation(inner)
        camera.note("forward: the activation, H = f(XA)", VALUES, "H", hidden)
        if hidden is not inner:
            camera.on_gradient(hidden, "backward: gradient of H", "H")
        y = row(hidden)
        camera.note_output(y)
        gradient = torch.ones_like(y) if gradient is None else gradient
        y.backward(gradient)
    return camera.develop(activation, gradient)


def check(column, row, x):
    for layer, gate, name in ((column, "enter", "ColumnLinear"), (row, "leave", "RowLinear")):
        if not all(hasattr(layer, attribute) for attribute in ("weight", "bias", "group", gate)):
            raise LaunchError(
                f"film_pair() takes a ColumnLinear and a RowLinear; this {name} has to have "
                f".weight, .bias, .group and .{gate}"
            )
    if not isinstance(x, torch.Tensor) or x.dim() != 2:
        raise LaunchError("film_pair() takes an x of two dims: (rows, inputs)")


class Listener(OperatorMode):
    """Notes each communication call."""

    def __init__(self):
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.calls += [call for call in calls_of(func, args) if call.name != "recv"]
        return func(*args, **(kwargs or {}))


@dataclass
class Shot:
    """One event: a matrix that is new, and by which name one process knows it."""

    event: str
    kind: str
    matrix: str
    tensor: torch.Tensor
    known_as: str
    sent: list[tuple[str, int]]


class Camera:
    """Takes a shot whenever a matrix comes to be; `develop` makes a film of them."""

    def __init__(self, column, row, x):
        self.column, self.row, self.group = column, row, column.group
        self.x = x.detach().clone().requires_grad_()
        self.shots: list[Shot] = []
        self.listener, self.seen = Listener(), 0  # seen: how many of its calls
        self.was_left = None  # what `leave` has returned

    def watch(self, enter):
        """Begin to look on; `enter` is given what ends it."""
        tensors = {"X": self.x, "A": self.column.weight.T, "B": self.row.weight.T}
        for matrix, tensor in tensors.items():
            self.note("before the step", VALUES, matrix, tensor)
        enter(instead(self.column, "enter", self.on_enter))
        enter(instead(self.row, "leave", self.on_leave))
        for matrix, layer, part in (("A", self.column, "columns"), ("B", self.row, "rows")):
            if layer.weight.requires_grad:
                event = f"backward: gradient of each rank's {part} of {matrix}"
                hook = functools.partial(self.note_weight, event, matrix)
                enter(layer.weight.register_hook(hook))
        enter(self.listener)

    # ---- What happens ----

    def on_enter(self, enter, x, *args, **kwargs):
        entered = enter(x, *args, **kwargs)
        event = "forward: X enters the parallel region"
        self.note(f"{event}: {{calls}}|{event}, nothing is sent", VALUES, "X", entered)
        if entered is not x:
            way = "backward: gradient of X through each rank's own columns"
            self.on_gradient(entered, way, "X")
        return entered

    def on_leave(self, leave, y, *args, **kwargs):
        self.note("forward: H times each rank's rows of B", VALUES, "Y", y, "HB")
        left = leave(y, *args, **kwargs)
        event = "forward: {calls} of Y|forward: Y leaves the parallel region, nothing is sent"
        self.note(event, VALUES, "Y", left, "HB")
        if left is not y:
            way = "backward: gradient of each rank's summand of Y"
            self.on_gradient(y, f"{way}: {{calls}}|{way}, nothing is sent", "Y")
        self.was_left = left.detach().clone()
        return left

    def note_output(self, y):
        """A row layer may add a bias; and its `leave` may not have been called."""
        if self.was_left is None or not torch.equal(self.was_left, y.detach()):
            last = "the output of the row layer" if self.was_left is None else "Y and the bias"
            self.note(f"forward: {last}: {{calls}}|forward: {last}", VALUES, "Y", y)
        self.on_gradient(y, "backward: gradient of Y", "Y")
        event = "backward: {calls} of the gradient of X|backward: gradient of X, nothing is sent"
        self.on_gradient(self.x, event, "X")

    def on_gradient(self, tensor, event, matrix, known_as=None):
        tensor.register_hook(lambda g: self.note(event, GRADIENTS, matrix, g, known_as))

    def note_weight(self, event, matrix, gradient):
        self.note(event, GRADIENTS, matrix, gradient.T)

    def note(self, event, kind, matrix, tensor, known_as=None):
        """Take a shot. An event `this|that`: this, with names of calls, if there have been any."""
        calls = self.listener.calls[self.seen :]
        self.seen += len(calls)
        names = names_of_calls(call.name for call in calls)
        event = (event if names else event.split("|")[-1]).split("|")[0].format(calls=names)
        sent = [(call.name, call.sent_bytes) for call in calls]
        tensor = tensor.detach().cpu().clone()
        self.shots.append(Shot(event, kind, matrix, tensor, known_as or matrix, sent))

    # ---- The film ----

    def develop(self, activation, gradient) -> PairFilm:
        """Compare the shots of all ranks."""
        n, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        reels = [None] * n
        dist.all_gather_object(reels, Reel.of(self), self.group)
        expected = expected_of(reels, activation, gradient.detach().cpu())
        film = PairFilm(rank, n)
        for number, shot in enumerate(self.shots):
            shots = [reel.shots[min(number, len(reel.shots) - 1)] for reel in reels]
            add_frame(film, shot, held_by(rank, shots, expected))
        return film


@dataclass
class Reel:
    """What one rank tells the others: its shots and its parameters."""

    shots: list[Shot]
    a: torch.Tensor
    b: torch.Tensor
    inner_bias: torch.Tensor | None
    bias: torch.Tensor | None
    are_cut: bool

    @classmethod
    def of(cls, camera):
        column, row = camera.column, camera.row
        own = (column.weight.T, row.weight.T, column.bias, row.bias)
        own = [None if tensor is None else tensor.detach().cpu().clone() for tensor in own]
        are_cut = hasattr(column.weight, "cut_dim") and hasattr(row.weight, "cut_dim")
        return cls(camera.shots, *own, are_cut)


def expected_of(reels, activation, gradient) -> dict:
    """{(kind, name): matrix} of one process that has all of A and B, as far as the ranks do."""
    first, are_cut = reels[0], reels[0].are_cut
    a = joined([reel.a for reel in reels], 1, are_cut)
    b = joined([reel.b for reel in reels], 0, are_cut)
    if a.shape[1] != b.shape[0]:
        a, b = first.a, first.b  # as rank 0 has computed with them
    x, a, b = (tensor.clone().requires_grad_() for tensor in (first.shots[0].tensor, a, b))
    inner = x @ a
    if first.inner_bias is not None:
        inner = inner + joined([reel.inner_bias for reel in reels], 0, are_cut)
    hidden = activation(inner)
    product = hidden @ b
    y = product if first.bias is None else product + first.bias
    made = {"X": x, "A": a, "B": b, "XA": inner, "H": hidden, "HB": product, "Y": y}
    gradients = torch.autograd.grad(y, list(made.values()), gradient)
    found = {(VALUES, name): tensor.detach() for name, tensor in made.items()}
    return found | {(GRADIENTS, name): tensor for name, tensor in zip(made, gradients)}


def held_by(rank, shots, expected) -> Held:
    """What a rank has of the matrix that is new, if all ranks have come to the same event."""
    mine = shots[rank]
    if all((shot.kind, shot.matrix) == (mine.kind, mine.matrix) for shot in shots):
        parts = [shot.tensor for shot in shots]
        return placed(parts, expected[mine.kind, mine.known_as])[rank]
    shape = tuple(mine.tensor.shape)
    return Held(tuple(map(tuple, mine.tensor.tolist())), None, shape, (0, 0), False)


def add_frame(film, shot, held):
    """One more frame; shots of one event belong to the same one."""
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


@contextlib.contextmanager
def instead(layer, name, watched):
    """Have `watched(original, ...)` called in place of a layer's own function of this name."""
    original = getattr(layer, name)
    setattr(layer, name, functools.partial(watched, original))
    try:
        yield
    finally:
        setattr(layer, name, original)


def names_of_calls(names) -> str:
    """`all-reduce`; of several calls with one name, that name once."""
    known = {"send": "messages with parts"}  # of a ring of one's own
    return " and ".join(dict.fromkeys(known.get(name, name.replace("_", "-")) for name in names))
