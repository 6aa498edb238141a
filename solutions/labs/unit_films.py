# Built from chapters/ch06_zero/labs/unit_films.py by `make build`.
"""A film of one training step in which units of parameters are sharded over the ranks, as in ZeRO.

It watches from outside, through hooks, and reads from the storages what this rank holds.
"""

import contextlib
import functools
import threading
from collections import Counter

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from unit_frames import UnitFilm, UnitFrame, UnitState, changes_between

from pedagogy_lib.basics.errors import LaunchError
from pedagogy_lib.basics.torch_private import (
    ResizesWatched,
    hook_first,
    identity_of_storage,
    is_in_backward,
    is_in_storage,
)
from pedagogy_lib.measuring.bytes_of_calls import tensors_in

OF_A_UNIT = ("flat", "parameters", "shard", "sizes", "n", "rank")


@contextlib.contextmanager
def film_units(units, model=None):
    """Film one step of training inside a rank: `with film_units(zero.units) as film:`.

    The step is forward, backward, and the step of an optimizer of torch.optim on the shards; the
    engine is one of stage 1, 2 or 3. A unit counts as freed when the storage of its `flat` has 0
    bytes. Once that storage gets memory, chunks are travelling, until the unit has all its
    parameters again or its module computes. Parameters in no unit, such as frozen ones, are not
    filmed. To measure memory as well, put `measure` around the film, not inside.

    units   {module: unit}; a unit has `flat`, `parameters`, `shard`, `sizes`, `n` and `rank`, as in
            labs/zero.py
    model   a module that contains them all and gives them names; needed if it is no unit itself
    Raises  LaunchError if `units` is something else
    """
    check_units(units)
    camera = Camera(units, model)
    with contextlib.ExitStack() as until_the_end:
        camera.watch(until_the_end.enter_context)
        camera.note("before the step", [])
        yield camera.film
        camera.notice()


def check_units(units):
    good = isinstance(units, dict) and units
    if not good or not all(hasattr(unit, name) for unit in units.values() for name in OF_A_UNIT):
        raise LaunchError(
            "film_units() takes {module: unit}, as in `Zero3.units`; each unit has "
            + ", ".join(f".{name}" for name in OF_A_UNIT)
        )


def names_of(modules, model=None) -> list[str]:
    """Return names in the model, whose own unit is "rest"; without it, `Linear 0`, `Linear 1`."""
    if model is None:
        inside = {module: set(module.modules()) for module in modules}
        roots = [module for module in modules if inside[module].issuperset(modules)]
        model = next(iter(roots), torch.nn.Module())
    known = {module: name for name, module in model.named_modules()}
    counts, names = Counter(), []
    for module in modules:
        kind = type(module).__name__
        numbered = f"{kind} {counts[kind]}" if len(modules) > 1 else kind
        names.append(known.get(module, numbered) or ("rest" if len(modules) > 1 else kind))
        counts[kind] += 1
    return names


class Camera:
    """A camera, which adds a frame to a film whenever something happens to the numbered units."""

    def __init__(self, units, model):
        self.modules, self.units = list(units), list(units.values())
        self.film = UnitFilm(
            rank=self.units[0].rank,
            n=self.units[0].n,
            names=names_of(self.modules, model),
            sizes=[list(unit.sizes) for unit in self.units],
            elements=[unit.shard.numel() * unit.n for unit in self.units],
            unit_bytes=[unit.shard.nbytes * unit.n for unit in self.units],
        )
        self.at_first = [copies_of(unit) for unit in self.units]
        self.phase, self.depth = "forward", 0  # depth: how many units' modules compute
        self.travelling = {}  # {unit: whether it had its parameters when its gather began}
        self.missing = [set(unit.parameters) for unit in self.units]  # their gradients are to come
        self.has_stepped = False
        self.one_at_a_time = threading.RLock()  # units may be gathered in another thread

    def watch(self, enter):
        """Start watching; `enter` is called with each context in which something is watched."""
        self.enter = enter
        for number, (module, unit) in enumerate(zip(self.modules, self.units)):
            hooks = self.enter_forward, self.film_forward, self.leave_forward, self.film_gradient
            before, on, after, ready = (functools.partial(hook, number) for hook in hooks)
            enter(module.register_forward_pre_hook(before, prepend=True))
            enter(module.register_forward_pre_hook(on))  # by now, the engine has gathered it
            enter(module.register_forward_hook(after))
            for parameter in unit.parameters:
                enter(hook_first(parameter, ready))
                enter(parameter.register_post_accumulate_grad_hook(self.notice))
        enter(register_optimizer_step_pre_hook(self.enter_step))
        enter(register_optimizer_step_post_hook(self.film_step))
        enter(ResizesWatched(self.film_resize))

    # ---- Events ----

    def enter_forward(self, number, module, inputs):
        self.notice()
        if not is_in_backward():
            self.phase, self.depth = "forward", self.depth + 1

    def film_forward(self, number, module, inputs):
        self.has_arrived(number)
        again = " again" if is_in_backward() else ""  # activation checkpointing
        self.note_unit(number, f"computes{again}")

    def leave_forward(self, number, module, inputs, output):
        self.notice()
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                self.enter(tensor.register_hook(functools.partial(self.enter_backward, number)))
        if not is_in_backward():
            self.depth -= 1
            self.phase = "forward" if self.depth else "backward"

    def enter_backward(self, number, gradient):
        """Film a unit that has arrived; if others are inside, its gradients may come much later."""
        self.has_arrived(number)
        inside = set(self.modules[number].modules())
        if any(other in inside for other in self.modules if other is not self.modules[number]):
            self.note_unit(number, "computes")

    def film_gradient(self, number, parameter):
        """Film a unit whose gradients are complete; runs before the engine's own hook."""
        self.missing[number].discard(parameter)
        if not self.missing[number]:
            self.missing[number] = set(self.units[number].parameters)
            self.has_arrived(number)
            self.note_unit(number, "computes its gradients")

    def enter_step(self, optimizer, args, kwargs):
        if self.find_stepped_units(optimizer):
            self.phase = "after the backward"
            self.notice()

    def film_step(self, optimizer, args, kwargs):
        if numbers := self.find_stepped_units(optimizer):
            self.phase, self.has_stepped = "after the step", True
            self.note("step: each rank updates its own shards", numbers)

    def find_stepped_units(self, optimizer) -> list[int]:
        stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return [number for number, unit in enumerate(self.units) if id(unit.shard) in stepped]

    @contextlib.contextmanager
    def film_resize(self, storage, size):
        """Add a frame after the resize, if the storage is that of a unit's flat."""
        units = enumerate(self.units)
        mine = [number for number, unit in units if is_in_storage(unit.flat, storage)]
        if not mine:
            yield
            return
        with self.one_at_a_time:
            self.notice()
            unit = self.units[mine[0]]
            was_gathered, had_parameters = is_gathered(unit), has_parameters(unit)
            yield
            if is_gathered(unit) and not was_gathered:
                self.travelling[mine[0]] = had_parameters
                again = " again" if self.phase == "backward" else ""
                self.note_unit(mine[0], f"is being gathered{again}")
            elif was_gathered and not is_gathered(unit):
                self.note_unit(mine[0], "disposed of")

    def has_arrived(self, number):
        with self.one_at_a_time:
            self.travelling.pop(number, None)
            self.notice()

    # ---- Frames ----

    def note(self, event, about):
        """Add a frame."""
        with self.one_at_a_time:
            leaves = [x for unit in self.units for x in (unit.shard, *unit.parameters)]
            self.film.frames.append(
                UnitFrame(
                    event,
                    list(about),
                    [self.read_unit_state(number) for number in range(len(self.units))],
                    bytes_of([*leaves, *(unit.flat for unit in self.units)]),
                    bytes_of([leaf.grad for leaf in leaves if leaf.grad is not None]),
                )
            )

    def note_unit(self, number, event):
        self.note(f"{self.phase}: {self.film.names[number]} {event}", [number])

    def notice(self, *_):
        """Add a frame if something has happened to units that no hook has reported."""
        with self.one_at_a_time:
            changed = {}
            for number, before in enumerate(self.film.frames[-1].units):
                for text in changes_between(before, self.read_unit_state(number)):
                    changed.setdefault(text, []).append(number)
            if changed:
                texts = [
                    text.format(**self.describe_units(those)) for text, those in changed.items()
                ]
                about = sorted({number for numbers in changed.values() for number in numbers})
                self.note(f"{self.phase}: {'; '.join(texts)}", about)

    def describe_units(self, numbers) -> dict[str, str]:
        """Return the words by which an event names some units."""
        if len(numbers) == len(self.units) > 1:
            ways = "all units", "all gradients", "all new parameters"
        else:
            names = ", ".join(self.film.names[number] for number in numbers[:3])
            names += f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
            ways = names, f"gradients of {names}", f"new parameters of {names}"
        return dict(zip(("units", "gradients", "parameters"), ways))

    def read_unit_state(self, number) -> UnitState:
        unit = self.units[number]
        return UnitState(
            tuple(self.chunk_states(number, unit)),
            tuple(0 if p.grad is None else p.grad.nbytes for p in unit.parameters),
            0 if unit.shard.grad is None else unit.shard.grad.nbytes,
        )

    def chunk_states(self, number, unit) -> list[str]:
        shard, flat = self.at_first[number]
        if self.has_stepped and flat is not None and is_gathered(unit):
            chunks = zip(unit.flat.chunk(unit.n), flat.chunk(unit.n))
            return ["held" if torch.equal(now, before) else "updated" for now, before in chunks]
        own = "updated" if self.has_stepped and not torch.equal(unit.shard, shard) else "held"
        others = own if is_gathered(unit) else "absent"
        if number in self.travelling and (self.travelling[number] or not has_parameters(unit)):
            others = "travelling"
        return [own if chunk == unit.rank else others for chunk in range(unit.n)]


# ---- Reading the storages of a unit ---------------------------------------------------------


def copies_of(unit):
    """Return copies of a unit's shard, and of its flat if that has memory, as in stage 1."""
    return unit.shard.detach().clone(), unit.flat.clone() if is_gathered(unit) else None


def is_gathered(unit) -> bool:
    return unit.flat.untyped_storage().nbytes() > 0


def has_parameters(unit) -> bool:
    return [p.numel() for p in unit.parameters] == list(unit.sizes)


def bytes_of(tensors) -> int:
    """Return the bytes of the tensors' storages; a storage that several share counts once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({identity_of_storage(storage): storage.nbytes() for storage in storages}.values())
