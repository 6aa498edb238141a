"""A film of one step of data parallel training: what becomes of every gradient on every rank.

It looks on from outside, through hooks, and need not know how the gradients are averaged.
"""

import contextlib
import functools
import threading
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import torch
import torch.distributed as dist
from matplotlib.patches import Rectangle
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from .errors import LaunchError
from .links import replaced
from .style import COLORS, INK, Picture, in_course_style, label_ink, new_figure

# What becomes of a parameter, in this order, and the colour of what has brought it there.
STATES = {
    "waiting": COLORS["idle"],
    "forward done": COLORS["forward"],
    "gradient ready": COLORS["backward"],
    "travelling": COLORS["communication"],
    "averaged": COLORS["gradients"],
    "stepped": COLORS["optimizer_state"],
}
ORDER = list(STATES)


@dataclass
class Frame:
    """What one rank had when something had just happened; each list is by parameter.

    event      what has happened
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
    """One step on one rank.

    names    of the parameters, in the order of the model
    buckets  the number of each one's bucket; None if it is in none
    """

    names: list[str]
    buckets: list[int | None]
    frames: list[Frame] = field(default_factory=list)


# ---- Filming --------------------------------------------------------------------------------


@contextlib.contextmanager
def film_step(model, buckets):
    """Inside of a rank: `with film_step(model, buckets) as film:` around one step of training.

    The step is forward, backward, whatever averages the gradients, and the step of an optimizer
    of torch.optim. All-reduces are seen that go through `dist.all_reduce`; a bucket is known by
    its number of elements, and by its turn where several are as large. "averaged" is a gradient
    that has been written to since the backward.

    model    the module whose parameters are trained, without the wrapper that averages
    buckets  lists of its parameters, such as `make_buckets` returns
    Raises   LaunchError if a bucket holds another model's parameter
    """
    camera = Camera(model, buckets)
    with contextlib.ExitStack() as until_the_end:
        camera.watch(until_the_end.enter_context)
        yield camera.film
        if not camera.has_stepped:
            camera.note_averages()


class Camera:
    """Adds a frame to a film whenever something happens to the parameters of a model."""

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
        """Begin to look on; `enter` is given what ends it."""
        for name, module in self.model.named_modules():
            own = [self.column[p] for p in module.parameters(recurse=False) if p in self.column]
            if own:
                enter(module.register_forward_hook(functools.partial(self.on_forward, name, own)))
        for parameter in self.parameters:
            enter(hook_first(parameter, self.on_gradient))
        enter(register_optimizer_step_pre_hook(self.before_step))
        enter(register_optimizer_step_post_hook(self.after_step))
        enter(replaced(all_reduce=self.all_reduce))

    def note(self, event, columns, state):
        """Add a frame; a state is never left for an earlier one."""
        with self.one_at_a_time:
            for c in columns:
                self.states[c] = max(self.states[c], state, key=ORDER.index)
            gradients = [first_of(parameter.grad) for parameter in self.parameters]
            weights = list(map(first_of, self.parameters))
            self.film.frames.append(Frame(event, list(self.states), gradients, weights))

    def on_forward(self, name, columns, module, inputs, output):
        self.note(f"forward: {f'layer {name}' if name else 'the model'}", columns, "forward done")

    def on_gradient(self, parameter):
        c = self.column[parameter]
        self.local[c] = copy_of_gradient(parameter)
        name = self.film.names[c]
        self.note(f"backward: the gradient of {name} is ready", [c], "gradient ready")

    def all_reduce(self, tensor, *args, **kwargs):
        number = self.bucket_in(tensor)
        if number is not None:
            self.begun.add(number)
            columns, ready = self.buckets[number], ORDER.index("gradient ready")
            full = all(ORDER.index(self.states[c]) >= ready for c in columns)
            event = "bucket {} is full: its all-reduce" if full else "the all-reduce of bucket {}"
            self.note(f"{event.format(number)} begins", columns, "travelling")
        return self.real_all_reduce(tensor, *args, **kwargs)

    def bucket_in(self, tensor) -> int | None:
        """The first bucket as large as this that has not begun: better one whose gradient it is."""
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

    def before_step(self, optimizer, args, kwargs):
        if self.columns_of(optimizer) and not self.has_stepped:
            self.note_averages()

    def after_step(self, optimizer, args, kwargs):
        if columns := self.columns_of(optimizer):
            self.has_stepped = True
            self.note("step", columns, "stepped")

    def columns_of(self, optimizer) -> list[int]:
        """What an optimizer changes; without a gradient, a parameter stays as it is."""
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return [self.column[p] for p in held if p in self.column and p.grad is not None]


def hook_first(parameter, hook):
    """Register a hook to be called when a gradient is complete, before those already there.

    One of those may begin an all-reduce: then the gradient is to have been noted as ready.
    """
    handle = parameter.register_post_accumulate_grad_hook(hook)
    hooks = parameter._post_accumulate_grad_hooks
    for other in [key for key in hooks if key != handle.id]:
        hooks[other] = hooks.pop(other)  # to the end
    return handle


def copy_of_gradient(parameter):
    """What `is_rewritten` compares with: a gradient, its version, and a copy."""
    gradient = parameter.grad
    return (None, 0, None) if gradient is None else (gradient, gradient._version, gradient.clone())


def is_rewritten(gradient, before, version, values) -> bool:
    """Whether there is a new gradient, or another one in the same place.

    Values alone do not tell: the average of equal gradients is no other. Nor do versions: they
    know nothing of what is done to `.data`.
    """
    if gradient is None or gradient is not before:
        return gradient is not None
    return gradient._version != version or not torch.equal(gradient, values)


def first_of(tensor) -> float | None:
    return None if tensor is None else tensor.detach().flatten()[0].item()


# ---- The picture ----------------------------------------------------------------------------

WIDTH, ROW_INCHES = 9.0, 0.46
SPACE = 0.16  # between buckets, in widths of a cell
PAD = 0.04
MUTED = "#6E6E6E"


@in_course_style
def plot_step(films, number) -> Picture:
    """A frame of a step: ranks are rows, parameters are columns, in the order of the model.

    A cell's colour is the parameter's state, its number the first element of its gradient. What
    has changed since the frame before is outlined. Each rank goes at its own pace; frames belong
    together by their number.

    films   a `StepFilm` of every rank
    number  which frame, from 1 on; where a rank has fewer, its last one
    """
    last = max(len(film.frames) for film in films)
    if not 1 <= number <= last:
        raise LaunchError(f"plot_step() has frames 1 to {last} of this step, not {number}")
    places = places_of(films[0].buckets)
    figure, axes = new_figure(WIDTH, 1.55 + ROW_INCHES * len(films))
    for rank, film in enumerate(films):
        axes.text(-0.12, rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=10)
        draw_row(axes, rank, places, frame_of(film, number), film.frames[: number - 1])
    characters = int((WIDTH - 0.8) / (places[-1] + 1) / 0.075)
    for name, x in zip(films[0].names, places, strict=True):
        axes.text(x + 0.5, -0.08, heading(name, characters), ha="center", va="bottom",
                  fontsize=8.5, linespacing=1.1)  # fmt: skip
    draw_brackets(axes, places, films[0].buckets)
    axes.set_xlim(-0.02, max(places[-1] + 1, 4) + 0.02)
    axes.set_ylim(len(films) + 0.05, -1.35)
    axes.axis("off")
    title = f"{number} of {last}: {title_of(films, number)}"
    axes.set_title(title)
    legend(figure)
    return Picture(figure, f"{title}. {told(films, number)}")


def frame_of(film, number) -> Frame:
    return film.frames[min(number, len(film.frames)) - 1]


def title_of(films, number) -> str:
    """What has just happened; if not the same everywhere, on rank 0."""
    events = [frame_of(film, number).event for film in films]
    return events[0] if len(set(events)) == 1 else f"on rank 0, {events[0]}"


def places_of(buckets) -> list[float]:
    """Where each column begins, with some space where a bucket ends."""
    places = [0.0]
    for before, bucket in pairwise(buckets):
        places.append(places[-1] + 1 + SPACE * (before != bucket))
    return places


def draw_row(axes, rank, places, frame, former):
    """The cells of one rank; with an outline, if they differ from the frame before."""
    before = former[-1] if former else Frame("", ["waiting"] * len(places), frame.gradients, [])
    for c, x in enumerate(places):
        state, gradient = frame.states[c], frame.gradients[c]
        box = (x + PAD, rank + 0.07), 1 - 2 * PAD, 0.86
        if (state, gradient) == (before.states[c], before.gradients[c]):
            axes.add_patch(Rectangle(*box, facecolor=STATES[state], lw=0))
        else:  # a white line between colour and outline, as the colour may be dark
            axes.add_patch(Rectangle(*box, facecolor=STATES[state], edgecolor="white", lw=5))
            axes.add_patch(Rectangle(*box, facecolor="none", edgecolor=INK, lw=1.6))
        text = "–" if gradient is None else two_digits(gradient)
        axes.text(x + 0.5, rank + 0.52, text, ha="center", va="center", color=ink_on(state),
                  fontsize=10 if len(places) <= 8 else 8.5)  # fmt: skip


def ink_on(state) -> str:
    return MUTED if state == "waiting" else label_ink(STATES[state])


def draw_brackets(axes, places, buckets):
    """Above the columns, which of them travel together."""
    for bucket, group in groupby(range(len(places)), key=buckets.__getitem__):
        columns = [places[c] for c in group]
        if bucket is not None:
            left, right = columns[0] + PAD, columns[-1] + 1 - PAD
            axes.plot([left, left, right, right], [-0.82, -0.92, -0.92, -0.82], color=INK, lw=1)
            axes.text((left + right) / 2, -1.0, f"bucket {bucket}", ha="center", va="bottom",
                      fontsize=9)  # fmt: skip


def heading(name, characters) -> str:
    """A parameter's name; if it is too long, its module and, under it, the rest: their ends."""
    lines = [name] if len(name) <= characters else filter(None, name.rpartition(".")[::2])
    return "\n".join(x if len(x) <= characters else "…" + x[1 - characters :] for x in lines)


def two_digits(value) -> str:
    """`0.0012`, `−3.0`, `120`: two significant digits; very small or large ones as `1.2e−6`."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    if value == 0 or not exponent:  # it is infinite, or not a number
        return f"{value:g}"
    power = int(exponent)
    if -4 <= power <= 3:
        text = f"{float(f'{value:.1e}'):.{max(0, 1 - power)}f}"
    else:
        text = f"{mantissa}e{power}"
    return text.replace("-", "−")


def legend(figure):
    """What the colours and the outline stand for."""
    handles = [Rectangle((0, 0), 1, 1, facecolor=color) for color in STATES.values()]
    handles[0].set(edgecolor=MUTED, lw=0.4)  # hardly visible otherwise, so small as it is
    handles.append(Rectangle((0, 0), 1, 1, facecolor="white", edgecolor=INK, lw=1.6))
    figure.legend(handles, [*STATES, "has just changed"], loc="outside lower center",
                  ncols=len(handles), fontsize=8.5, handlelength=1.0, handleheight=1.0,
                  columnspacing=1.2)  # fmt: skip


def told(films, number) -> str:
    """What the cells show, and what they leave open."""
    ranks = []
    for rank, film in enumerate(films):
        frame = frame_of(film, number)
        cells = zip(frame.states, film.names, frame.gradients)
        parts = [
            f"{state} {', '.join(f'{name} {number_or_none(g)}' for _, name, g in group)}"
            for state, group in groupby(cells, key=lambda cell: cell[0])
        ]
        ranks.append(f"rank {rank}: {'; '.join(parts)}")
    return f"Each rank at its own pace, matched by number. {'. '.join(ranks)}."


def number_or_none(gradient) -> str:
    return "None" if gradient is None else two_digits(gradient)
