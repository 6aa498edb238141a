# Built from chapters/ch03_data_parallel/labs/step_films.py by `make build`.
"""A film of one step of data parallel training, with the state of each gradient on each rank.

It watches from outside through hooks and need not know how the gradients are averaged.
"""

import contextlib
import functools
import threading
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pedagogy_lib.basics.errors import LaunchError
from pedagogy_lib.basics.torch_private import hook_first, version_of
from pedagogy_lib.measuring.replaced_calls import replace_calls

# The states of a parameter, in the order in which it passes through them.
STATES = ("waiting", "forward done", "gradient ready", "travelling", "averaged", "stepped")


@dataclass
class Frame:
    """The state of one rank right after an event; each list has one entry per parameter.

    event      a description of the event
    states     one of `STATES` each
    gradients  the first element of each `.grad`, or None
    weights    the first element of each parameter
    """

    event: str
    states: list[str]
    gradients: list[float | None]
    weights: list[float]


@dataclass
class StepFilm:
    """The film of one step on one rank.

    names    the names of the parameters, in the order of the model
    buckets  the number of each parameter's bucket; None if it is in none
    """

    names: list[str]
    buckets: list[int | None]
    frames: list[Frame] = field(default_factory=list)


@contextlib.contextmanager
def film_step(model, buckets):
    """Record one training step on a rank, inside `with film_step(model, buckets) as film:`.

    The step is a forward, a backward, any way to average the gradients, and the step of an
    optimizer of torch.optim. All-reduces are seen if they go through `dist.all_reduce`. A bucket
    is recognised by its number of elements; if several are equally large, by the memory of its
    first gradient, or else by its turn. A gradient counts as averaged once it has been written to
    after the backward.

    model    the module whose parameters are trained, without the wrapper that averages
    buckets  lists of its parameters, such as those that `make_buckets` returns
    Raises   LaunchError if a bucket holds another model's parameter
    """
    camera = Camera(model, buckets)
    with contextlib.ExitStack() as until_the_end:
        camera.watch(until_the_end.enter_context)
        yield camera.film
        if not camera.has_stepped:
            camera.note_averages()


class Camera:
    """A camera that adds a frame to a film whenever something happens to a model's parameters."""

    def __init__(self, model, buckets):
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.model, self.parameters = model, list(trained.values())
        self.column = {parameter: column for column, parameter in enumerate(self.parameters)}
        if not all(parameter in self.column for bucket in buckets for parameter in bucket):
            raise LaunchError("film_step() takes buckets of this very model's parameters")
        self.buckets = [[self.column[parameter] for parameter in bucket] for bucket in buckets]
        number_of = {c: number for number, columns in enumerate(self.buckets) for c in columns}
        self.film = StepFilm(list(trained), [number_of.get(c) for c in range(len(trained))])
        self.states = ["waiting"] * len(trained)
        self.local = [copy_of_gradient(p) for p in self.parameters]  # as the backward left them
        self.begun, self.has_stepped = set(), False
        self.real_all_reduce = dist.all_reduce
        self.one_at_a_time = threading.Lock()  # an all-reduce may begin in another thread

    def watch(self, enter):
        """Start watching; `enter` is called with each context that watches something."""
        for name, module in self.model.named_modules():
            own = [self.column[p] for p in module.parameters(recurse=False) if p in self.column]
            if own:
                enter(module.register_forward_hook(functools.partial(self.note_forward, name, own)))
        for parameter in self.parameters:  # first, as a later hook may begin an all-reduce
            enter(hook_first(parameter, self.note_gradient))
        enter(register_optimizer_step_pre_hook(self.note_averages_once))
        enter(register_optimizer_step_post_hook(self.note_step))
        enter(replace_calls(all_reduce=self.all_reduce))

    def note(self, event, columns, state):
        """Add a frame; no parameter goes back to an earlier state."""
        with self.one_at_a_time:
            for c in columns:
                self.states[c] = max(self.states[c], state, key=STATES.index)
            gradients = [first_of(parameter.grad) for parameter in self.parameters]
            weights = list(map(first_of, self.parameters))
            self.film.frames.append(Frame(event, list(self.states), gradients, weights))

    def note_forward(self, name, columns, module, inputs, output):
        self.note(f"forward: {f'layer {name}' if name else 'the model'}", columns, "forward done")

    def note_gradient(self, parameter):
        c = self.column[parameter]
        self.local[c] = copy_of_gradient(parameter)
        name = self.film.names[c]
        self.note(f"backward: the gradient of {name} is ready", [c], "gradient ready")

    def all_reduce(self, tensor, *args, **kwargs):
        number = self.bucket_in(tensor)
        if number is not None:
            self.begun.add(number)
            columns, ready = self.buckets[number], STATES.index("gradient ready")
            full = all(STATES.index(self.states[c]) >= ready for c in columns)
            event = "bucket {} is full: its all-reduce" if full else "the all-reduce of bucket {}"
            self.note(f"{event.format(number)} begins", columns, "travelling")
        return self.real_all_reduce(tensor, *args, **kwargs)

    def bucket_in(self, tensor) -> int | None:
        """Find a bucket of this size that has not begun, with this gradient or else the first."""
        alike = [
            number
            for number, columns in enumerate(self.buckets)
            if number not in self.begun
            and sum(self.parameters[c].numel() for c in columns) == tensor.numel()
        ]
        return min(alike, key=lambda number: not self.begins_with(number, tensor), default=None)

    def begins_with(self, number, tensor) -> bool:
        gradient = self.parameters[self.buckets[number][0]].grad
        return gradient is not None and gradient.data_ptr() == tensor.data_ptr()

    def note_averages(self):
        written = [c for c, p in enumerate(self.parameters) if is_rewritten(p.grad, *self.local[c])]
        if written:
            self.note("averages are in place", written, "averaged")

    def note_averages_once(self, optimizer, args, kwargs):
        if self.columns_of(optimizer) and not self.has_stepped:
            self.note_averages()

    def note_step(self, optimizer, args, kwargs):
        if columns := self.columns_of(optimizer):
            self.has_stepped = True
            self.note("step", columns, "stepped")

    def columns_of(self, optimizer) -> list[int]:
        """Return the columns that an optimizer changes: those of its parameters with a gradient."""
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return [self.column[p] for p in held if p in self.column and p.grad is not None]


def copy_of_gradient(parameter):
    """Return a gradient, its version and a copy, with which `is_rewritten` compares."""
    gradient = parameter.grad
    if gradient is None:
        return None, 0, None
    return gradient, version_of(gradient), gradient.clone()


def is_rewritten(gradient, before, version, values) -> bool:
    """Return whether there is a new gradient, or the old one has been written to.

    Values alone do not suffice, because the average of equal gradients equals them. Nor do versions
    suffice, because writing to `.data` leaves them as they are.
    """
    if gradient is None or gradient is not before:
        return gradient is not None
    return version_of(gradient) != version or not torch.equal(gradient, values)


def first_of(tensor) -> float | None:
    return None if tensor is None else tensor.detach().flatten()[0].item()
