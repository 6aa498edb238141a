# Built from chapters/ch07_tensor_parallel/labs/pair_films.py by `make build`.
"""A film of a forward and a backward through two linear layers, of which each rank has a part.

A camera watches from outside, through hooks and around the layers' `enter` and `leave`. Each rank's
part of a matrix is found by comparing all ranks' tensors with each other and with one process's.
"""

import contextlib
import functools

import cloudpickle
import torch
import torch.distributed as dist
import torch.nn.functional as F
from pair_frames import (
    GRADIENTS,
    VALUES,
    PairFilm,
    Reel,
    Shot,
    add_frame,
    compute_expected,
    find_local_matrix,
    names_of_calls,
)

from pedagogy_lib.basics.errors import LaunchError
from pedagogy_lib.basics.torch_private import OperatorMode
from pedagogy_lib.measuring.bytes_of_calls import RULES, Call, calls_of


def film_pair(column, row, x, activation=F.relu, gradient=None) -> PairFilm:
    """Compute row(activation(column(x))) and its backward on a rank; return the film of it.

    All ranks take part, and at the end they exchange their shots. Gradients are added to the
    layers' parameters, as in any backward.

    column      like ColumnLinear of labs/tensor_parallel.py: it has `weight`, its part of A as
                nn.Linear stores it, `bias`, `group`, and calls `enter(x, group)`
    row         like RowLinear: it has `weight`, its part of B, `bias`, `group`, and calls
                `leave(y, group)`
    x           (rows, inputs)
    activation  an elementwise function
    gradient    of the output; by default all ones
    Raises      LaunchError if a layer lacks an attribute, or x is not a matrix
    """
    check(column, row, x)
    camera = Camera(column, row, x)
    with contextlib.ExitStack() as until_the_end:
        camera.watch(until_the_end.enter_context)
        y = forward(camera, column, row, activation)
        gradient = torch.ones_like(y) if gradient is None else gradient
        y.backward(gradient)
    return camera.develop(activation, gradient)


def forward(camera, column, row, activation):
    """Compute the output while the camera takes shots; it will take more in the backward."""
    inner = column(camera.x)
    camera.note("forward: X times each rank's columns of A", VALUES, "H", inner, "XA")
    camera.record_gradient(inner, "backward: gradient of XA, through f", "H", known_as="XA")
    hidden = activation(inner)
    camera.note("forward: the activation, H = f(XA)", VALUES, "H", hidden)
    if hidden is not inner:
        camera.record_gradient(hidden, "backward: gradient of H", "H")
    y = row(hidden)
    camera.note_output(y)
    return y


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
    """A mode that records all communication calls except receives."""

    def __init__(self):
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.calls += [call for call in calls_of(func, args) if call.name != "recv"]
        return func(*args, **(kwargs or {}))


class Camera:
    """A camera that takes a shot of each new matrix; `develop` makes a film of all shots."""

    def __init__(self, column, row, x):
        self.column, self.row, self.group = column, row, column.group
        self.x = x.detach().clone().requires_grad_()
        self.shots: list[Shot] = []
        self.listener, self.seen = Listener(), 0  # seen: how many of its calls are in shots
        self.was_left = None  # the tensor that `leave` returned

    def watch(self, enter):
        """Start watching; `enter` gets each context manager that has to stay open meanwhile."""
        tensors = {"X": self.x, "A": self.column.weight.T, "B": self.row.weight.T}
        for matrix, tensor in tensors.items():
            self.note("before the step", VALUES, matrix, tensor)
        enter(instead(self.column, "enter", self.record_enter))
        enter(instead(self.row, "leave", self.record_leave))
        for matrix, layer, part in (("A", self.column, "columns"), ("B", self.row, "rows")):
            if layer.weight.requires_grad:
                event = f"backward: gradient of each rank's {part} of {matrix}"
                hook = functools.partial(self.note_weight, event, matrix)
                enter(layer.weight.register_hook(hook))
        enter(self.listener)

    # ---- Events ----

    def record_enter(self, enter, x, *args, **kwargs):
        entered = enter(x, *args, **kwargs)
        event = "forward: X enters the parallel region"
        if_sent = f"{event}: {{calls}}"
        self.note(f"{event}, nothing is sent", VALUES, "X", entered, if_sent=if_sent)
        if entered is not x:
            way = "backward: gradient of X through each rank's own columns"
            self.record_gradient(entered, way, "X")
        return entered

    def record_leave(self, leave, y, *args, **kwargs):
        self.note("forward: H times each rank's rows of B", VALUES, "Y", y, "HB")
        left = leave(y, *args, **kwargs)
        event = "forward: Y leaves the parallel region, nothing is sent"
        self.note(event, VALUES, "Y", left, "HB", if_sent="forward: {calls} of Y")
        if left is not y:
            way = "backward: gradient of each rank's summand of Y"
            self.record_gradient(y, f"{way}, nothing is sent", "Y", if_sent=f"{way}: {{calls}}")
        self.was_left = left.detach().clone()
        return left

    def note_output(self, y):
        """Note the output if `leave` did not return it, and record the gradients of Y and X.

        The output differs if a bias was added, or if `leave` was not called at all.
        """
        if self.was_left is None or not torch.equal(self.was_left, y.detach()):
            last = "the output of the row layer" if self.was_left is None else "Y and the bias"
            event = f"forward: {last}"
            self.note(event, VALUES, "Y", y, if_sent=f"{event}: {{calls}}")
        self.record_gradient(y, "backward: gradient of Y", "Y")
        event = "backward: gradient of X, nothing is sent"
        self.record_gradient(self.x, event, "X", if_sent="backward: {calls} of the gradient of X")

    def record_gradient(self, tensor, event, matrix, **more):
        tensor.register_hook(lambda g: self.note(event, GRADIENTS, matrix, g, **more))

    def note_weight(self, event, matrix, gradient):
        self.note(event, GRADIENTS, matrix, gradient.T)

    def note(self, event, kind, matrix, tensor, known_as=None, if_sent=None):
        """Take a shot.

        if_sent  the event to name instead if there were communication calls since the last shot;
                 their names replace "{calls}"
        """
        calls = self.listener.calls[self.seen :]
        self.seen += len(calls)
        if calls and if_sent:
            event = if_sent.format(calls=names_of_calls(call.name for call in calls))
        sent = [(call.name, call.sent_bytes) for call in calls]
        tensor = tensor.detach().cpu().clone()
        self.shots.append(Shot(event, kind, matrix, tensor, known_as or matrix, sent))

    # ---- The film ----

    def develop(self, activation, gradient) -> PairFilm:
        """Compare the shots of all ranks; return this rank's film."""
        n, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        reels = [None] * n
        # Plain pickle has to import the module of each class, and ranks import no lab.
        dist.all_gather_object(reels, cloudpickle.dumps(Reel.record(self)), self.group)
        reels = [cloudpickle.loads(reel) for reel in reels]
        expected = compute_expected(reels, activation, gradient.detach().cpu())
        film = PairFilm(rank, n)
        for number, shot in enumerate(self.shots):
            shots = [reel.shots[min(number, len(reel.shots) - 1)] for reel in reels]
            add_frame(film, shot, find_local_matrix(rank, shots, expected))
        return film


@contextlib.contextmanager
def instead(layer, name, watched):
    """Replace the layer's function `name` by `watched(original, ...)` inside the context."""
    original = getattr(layer, name)
    setattr(layer, name, functools.partial(watched, original))
    try:
        yield
    finally:
        setattr(layer, name, original)
