"""Films of a step whose parameters are split into units: what they note on real ranks."""

import contextlib
import sys
from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from coursekit.content.ch06_zero.exercises.shared.prefetch_reference import make_prefetching_class
from helpers import launch_on_cpu as launch
from helpers import load_solved_lab, wait_until
from torch import nn
from torch.optim import optimizer as optimizers
from torch.utils.checkpoint import checkpoint

from pedagogy_lib import LaunchError, measure

FILMS = load_solved_lab("unit_films")
LR = 0.01
# Each unit: its two chunks on rank 1 (absent, travelling, held, updated), which of its parameters
# have a gradient, and whether its shard has one. Then bytes of parameters and of gradients.
STAGE_3 = """
before the step                            ah ---- -  ah -- -  ah -- -  424   0
forward: rest is being gathered            th ---- -  ah -- -  ah -- -  696   0
forward: rest computes                     hh ---- -  ah -- -  ah -- -  696   0
forward: blocks.0 is being gathered        hh ---- -  th -- -  ah -- -  984   0
forward: blocks.0 computes                 hh ---- -  hh -- -  ah -- -  984   0
forward: blocks.0 disposed of              hh ---- -  ah -- -  ah -- -  696   0
forward: blocks.1 is being gathered        hh ---- -  ah -- -  th -- -  984   0
forward: blocks.1 computes                 hh ---- -  ah -- -  hh -- -  984   0
forward: blocks.1 disposed of              hh ---- -  ah -- -  ah -- -  696   0
forward: rest disposed of                  ah ---- -  ah -- -  ah -- -  424   0
backward: rest is being gathered again     th ---- -  ah -- -  ah -- -  696   0
backward: rest computes                    hh ---- -  ah -- -  ah -- -  696   0
backward: blocks.1 is being gathered again hh --gg -  ah -- -  th -- -  984 108
backward: blocks.1 computes its gradients  hh --gg -  ah -- -  hh gg -  984 396
backward: gradients of blocks.1 reduced    hh --gg -  ah -- -  hh -- s  984 252
backward: blocks.1 disposed of             hh --gg -  ah -- -  ah -- s  696 252
backward: blocks.0 is being gathered again hh --gg -  th -- -  ah -- s  984 252
backward: blocks.0 computes its gradients  hh --gg -  hh gg -  ah -- s  984 540
backward: gradients of blocks.0 reduced    hh --gg -  hh -- s  ah -- s  984 396
backward: blocks.0 disposed of             hh --gg -  ah -- s  ah -- s  696 396
backward: rest computes its gradients      hh gggg -  ah -- s  ah -- s  696 556
backward: gradients of rest reduced        hh ---- s  ah -- s  ah -- s  696 424
backward: rest disposed of                 ah ---- s  ah -- s  ah -- s  424 424
step: each rank updates its own shards     au ---- s  au -- s  au -- s  424 424
after the step: all gradients freed        au ---- -  au -- -  au -- -  424   0
"""
STAGE_2 = """
before the step                            hh ---- -  hh -- -  hh -- -  848   0
forward: rest computes                     hh ---- -  hh -- -  hh -- -  848   0
forward: blocks.0 computes                 hh ---- -  hh -- -  hh -- -  848   0
forward: blocks.1 computes                 hh ---- -  hh -- -  hh -- -  848   0
backward: rest computes                    hh ---- -  hh -- -  hh -- -  848   0
backward: blocks.1 computes its gradients  hh --gg -  hh -- -  hh gg -  848 396
backward: gradients of blocks.1 reduced    hh --gg -  hh -- -  hh -- s  848 252
backward: blocks.0 computes its gradients  hh --gg -  hh gg -  hh -- s  848 540
backward: gradients of blocks.0 reduced    hh --gg -  hh -- s  hh -- s  848 396
backward: rest computes its gradients      hh gggg -  hh -- s  hh -- s  848 556
backward: gradients of rest reduced        hh ---- s  hh -- s  hh -- s  848 424
step: each rank updates its own shards     hu ---- s  hu -- s  hu -- s  848 424
after the step: all gradients freed; all new parameters gathered uu ---- - uu -- - uu -- - 848 0
"""
STAGE_1 = """
before the step                            hh ---- -  hh -- -  hh -- -  848   0
forward: rest computes                     hh ---- -  hh -- -  hh -- -  848   0
forward: blocks.0 computes                 hh ---- -  hh -- -  hh -- -  848   0
forward: blocks.1 computes                 hh ---- -  hh -- -  hh -- -  848   0
backward: rest computes                    hh ---- -  hh -- -  hh -- -  848   0
backward: blocks.1 computes its gradients  hh --gg -  hh -- -  hh gg -  848 396
backward: blocks.0 computes its gradients  hh --gg -  hh gg -  hh gg -  848 684
backward: rest computes its gradients      hh gggg -  hh gg -  hh gg -  848 844
after the backward: all gradients reduced  hh ---- s  hh -- s  hh -- s  848 424
step: each rank updates its own shards     hu ---- s  hu -- s  hu -- s  848 424
after the step: all gradients freed; all new parameters gathered uu ---- - uu -- - uu -- - 848 0
"""


class Net(nn.Module):
    """67 numbers of its own, 72 in each block; one more in the optimizer's padding."""

    def __init__(self, blocks=2, unused=False):
        super().__init__()
        self.enter = nn.Linear(4, 8)
        layers = (nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(blocks))
        self.blocks = nn.Sequential(*layers)
        self.leave = nn.Linear(8, 3)
        self.spare = nn.Linear(2, 2) if unused else None

    def forward(self, x):
        return self.leave(self.blocks(self.enter(x)))


def make(lab, stage, model=None, **options):
    torch.manual_seed(0)
    model = model or Net()
    make_optimizer = partial(torch.optim.Adam, lr=LR)
    return model, getattr(lab, stage)(model, make_optimizer, list(model.blocks), **options)


def backward(model):
    """On other data on each rank."""
    torch.manual_seed(dist.get_rank())
    model(torch.randn(5, 4)).square().mean().backward()


def take_step(model, zero):
    backward(model)
    zero.step()


def film_stage(lab, stage):
    model, zero = make(lab, stage)
    with FILMS.film_units(zero.units) as film:
        take_step(model, zero)
    return film


def abbreviate_frame(frame) -> list[str]:
    """A frame as in the tables above, in words."""
    units = [
        "".join(state[0] for state in unit.chunks)
        + " " + "".join("g" if count else "-" for count in unit.gradient_bytes)
        + " " + ("s" if unit.shard_gradient_bytes else "-")
        for unit in frame.units
    ]  # fmt: skip
    line = " ".join([frame.event, *units, str(frame.parameter_bytes), str(frame.gradient_bytes)])
    return line.split()


def events(film):
    return [frame.event for frame in film.frames]


def events_of(table):
    """The events alone: what is in front of the three units' chunks, gradients and shards."""
    return [" ".join(line.split()[:-11]) for line in table.strip().split("\n")]


# ---- What is noted --------------------------------------------------------------------------


STAGES = {"Zero1": STAGE_1, "Zero2": STAGE_2, "Zero3": STAGE_3}


@cache
def film_on_two_ranks(stage) -> list:
    return launch(film_stage, load_solved_lab("zero"), stage, world_size=2).values


@pytest.mark.parametrize("stage", STAGES)
def test_every_frame_of_a_step(stage):
    _, second = film_on_two_ranks(stage)
    assert [abbreviate_frame(frame) for frame in second.frames] == [
        line.split() for line in STAGES[stage].strip().split("\n")
    ]


@pytest.mark.parametrize("stage", STAGES)
def test_a_film_has_the_names_and_sizes_of_its_units(stage):
    first, second = film_on_two_ranks(stage)
    assert first.names == second.names == ["rest", "blocks.0", "blocks.1"]
    assert first.sizes == second.sizes == [[32, 8, 24, 3], [64, 8], [64, 8]]
    assert first.elements == second.elements == [68, 72, 72]
    assert first.unit_bytes == second.unit_bytes == [272, 288, 288]
    assert (first.rank, second.rank, first.n) == (0, 1, 2)


@pytest.mark.parametrize("stage", STAGES)
def test_the_films_of_two_ranks_mirror_each_other(stage):
    first, second = film_on_two_ranks(stage)
    for ours, theirs in zip(first.frames, second.frames, strict=True):
        assert ours.event == theirs.event
        for mine, other in zip(ours.units, theirs.units, strict=True):
            assert mine.chunks == other.chunks[::-1]
            assert mine[1:] == other[1:]


def test_gradients_have_their_bytes():
    film, _ = film_on_two_ranks("Zero2")
    at = dict(zip(events(film), film.frames))
    assert at["backward: blocks.1 computes its gradients"].units[2].gradient_bytes == (256, 32)
    assert at["backward: blocks.1 computes its gradients"].units[0].gradient_bytes == (0, 0, 96, 12)
    assert at["backward: gradients of rest reduced"].units[0].shard_gradient_bytes == 136
    assert at["backward: gradients of rest reduced"].about == [0]
    assert at["step: each rank updates its own shards"].about == [0, 1, 2]


def test_the_next_unit_travels_while_one_computes():
    """Which of two threads is quicker changes from time to time; so one waits for the other."""

    def step(lab):
        kinds = SimpleNamespace(Ahead=make_prefetching_class(lab.Zero3, lab))
        model, zero = make(kinds, "Ahead")
        take_step(model, zero)  # learn in which order units are used
        with FILMS.film_units(zero.units) as film:

            def wait(*_):
                wait_until(lambda: "forward: blocks.1 is being gathered" in events(film), 30)

            with model.blocks[0][1].register_forward_hook(wait):
                take_step(model, zero)
        return film

    expected = sorted(events_of(STAGE_3))
    for film in launch(step, load_solved_lab("zero"), world_size=2).values:
        found = events(film)
        assert sorted(found) == expected
        begins = found.index("forward: blocks.1 is being gathered")
        assert begins < found.index("forward: blocks.0 disposed of")
        states = {state for frame in film.frames for state in frame.units[2].chunks}
        assert states == {"absent", "travelling", "held", "updated"}
        assert max(frame.parameter_bytes for frame in film.frames) == 424 + 272 + 2 * 288


def test_a_unit_alone_on_one_rank():
    def step(lab):
        model = nn.Linear(3, 2)
        zero = lab.Zero3(model, partial(torch.optim.SGD, lr=LR))
        with FILMS.film_units(zero.units) as film:
            model(torch.ones(1, 3)).sum().backward()
            zero.step()
        return film

    (film,) = launch(step, load_solved_lab("zero"), world_size=1).values
    assert film.names == ["Linear"]
    assert events(film)[1:3] == ["forward: Linear is being gathered", "forward: Linear computes"]
    assert {unit.chunks for frame in film.frames for unit in frame.units} == {
        ("held",),
        ("updated",),
    }


# ---- Other engines, other models ------------------------------------------------------------


def gather_at_once(unit):
    unit.flat.untyped_storage().resize_(unit.flat.nbytes)
    dist.all_gather_into_tensor(unit.flat, unit.shard.detach())


def dispose_of_flat(unit):
    """The parameters are still views into it."""
    unit.flat.untyped_storage().resize_(0)


@torch.no_grad()
def gather_anew(unit):
    unit.flat = torch.empty(unit.shard.numel() * unit.n)
    dist.all_gather_into_tensor(unit.flat, unit.shard.detach())
    for p, part, shape in zip(unit.parameters, unit.flat.split_with_sizes(
            [*unit.sizes, len(unit.flat) - sum(unit.sizes)]), unit.shapes):  # fmt: skip
        p.data = part.view(shape)


def forget(unit):
    unit.flat = torch.empty(0)
    for p in unit.parameters:
        p.data = torch.empty(0)


def film_other_engine(lab, gather, dispose):
    namespace = lab.Zero3.need.__globals__
    namespace["gather"], namespace["dispose"] = gather, dispose
    return film_stage(lab, "Zero3")


def test_another_collective_and_parameters_that_stay_views():
    step = partial(film_other_engine, gather=gather_at_once, dispose=dispose_of_flat)
    _, film = launch(step, load_solved_lab("zero"), world_size=2).values
    table = STAGE_3.strip().split("\n")
    assert [abbreviate_frame(frame) for frame in film.frames] == [line.split() for line in table]


def test_units_whose_flat_is_a_new_one_each_time():
    """No storage is resized: what has become of a unit is seen at the next hook."""
    step = partial(film_other_engine, gather=gather_anew, dispose=forget)
    _, film = launch(step, load_solved_lab("zero"), world_size=2).values
    assert events(film)[1:6] == [
        "forward: rest gathered",
        "forward: rest computes",
        "forward: blocks.0 gathered",
        "forward: blocks.0 computes",
        "forward: blocks.0 disposed of",
    ]
    assert "backward: gradients of blocks.1 reduced; blocks.1 disposed of" in events(film)
    assert abbreviate_frame(film.frames[-1]) == STAGE_3.strip().split("\n")[-1].split()


def test_units_that_were_whole_at_first():
    def step(lab):
        model, zero = make(lab, "Zero3")
        for unit in zero.units.values():
            lab.gather(unit)
        with FILMS.film_units(zero.units) as film:
            take_step(model, zero)
        return film

    _, film = launch(step, load_solved_lab("zero"), world_size=2).values
    assert [event for event in events_of(STAGE_3) if event not in events(film)] == [
        f"forward: {name} is being gathered" for name in film.names
    ]
    assert abbreviate_frame(film.frames[0])[-2:] == ["1272", "0"]
    assert abbreviate_frame(film.frames[-1]) == STAGE_3.strip().split("\n")[-1].split()


def test_parameters_without_a_part_in_the_loss():
    def step(lab):
        model, zero = make(lab, "Zero3", Net(unused=True))
        with FILMS.film_units(zero.units) as film:
            take_step(model, zero)
        return film

    for film in launch(step, load_solved_lab("zero"), world_size=2).values:
        found = events(film)
        assert "backward: rest computes its gradients" not in found
        assert found[-4:] == [
            "backward: gradients of rest reduced",
            "backward: rest disposed of",
            "step: each rank updates its own shards",
            "after the step: all gradients freed",
        ]
        at = dict(zip(found, film.frames))
        assert at["backward: blocks.0 disposed of"].units[0].gradient_bytes[-2:] == (0, 0)


def test_gradients_that_add_up_over_two_backwards():
    def step(lab):
        model, zero = make(lab, "Zero2")
        with FILMS.film_units(zero.units) as film:
            backward(model)
            take_step(model, zero)
        return film

    film, _ = launch(step, load_solved_lab("zero"), world_size=2).values
    once = events_of(STAGE_2)
    assert events(film) == once[:-2] + once[1:]


def test_a_forward_that_runs_again_in_the_backward():
    class CheckpointNet(Net):
        def forward(self, x):
            x = self.enter(x)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.leave(x)

    def step(lab):
        model, zero = make(lab, "Zero3", CheckpointNet())
        with FILMS.film_units(zero.units) as film:
            backward(model)
            take_step(model, zero)
        return film

    for film in launch(step, load_solved_lab("zero"), world_size=2).values:
        found = events(film)
        start = found.index("backward: blocks.1 is being gathered again")
        assert found[start + 1 : start + 3] == [
            "backward: blocks.1 computes again",
            "backward: blocks.1 computes its gradients",
        ]
        assert found.count("forward: blocks.1 is being gathered") == 2
        assert found.count("backward: rest is being gathered again") == 2


def test_frozen_and_tied_parameters():
    def step(lab):
        model = Net()
        model.leave.weight.requires_grad_(False)
        model.blocks[1].append(nn.Linear(8, 8))
        model.blocks[1][2].weight = model.blocks[1][0].weight
        model, zero = make(lab, "Zero3", model)
        with FILMS.film_units(zero.units) as film:
            take_step(model, zero)
        return film

    film, _ = launch(step, load_solved_lab("zero"), world_size=2).values
    assert film.sizes == [[32, 8, 3], [64, 8], [64, 8, 8]]
    assert events(film) == events_of(STAGE_3)


def test_names():
    model = Net(blocks=12)
    blocks = list(model.blocks)
    assert FILMS.names_of([model, *blocks[:1]]) == ["rest", "blocks.0"]
    assert FILMS.names_of([model]) == ["Net"]
    names = FILMS.names_of([*blocks[:2], model.leave])
    assert names == [
        "Sequential 0",
        "Sequential 1",
        "Linear 0",
    ]
    assert FILMS.names_of([*blocks[:2], model.leave], model) == ["blocks.0", "blocks.1", "leave"]


# ---- What is left behind --------------------------------------------------------------------


def all_hooks(model):
    return [
        torch.UntypedStorage.resize_,
        *(list(m._forward_pre_hooks) + list(m._forward_hooks) for m in model.modules()),
        *(list(p._post_accumulate_grad_hooks or ()) for p in model.parameters()),
        list(optimizers._global_optimizer_pre_hooks),
        list(optimizers._global_optimizer_post_hooks),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_behind(fails):
    def step(lab):
        model, zero = make(lab, "Zero3")
        before = all_hooks(model)
        with contextlib.suppress(ZeroDivisionError), FILMS.film_units(zero.units) as film:
            changed = all_hooks(model) != before
            out = model(torch.ones(5, 4)).square().mean()
            if fails:
                raise ZeroDivisionError
        same, frames = all_hooks(model) == before, len(film.frames)
        out.backward()
        zero.step()
        take_step(model, zero)
        return changed, same, len(film.frames) - frames

    assert launch(step, load_solved_lab("zero"), world_size=2).values == [(True, True, 0)] * 2


def test_filming_changes_no_number_and_needs_no_library_for_pictures():
    def step(lab):
        shards = []
        for with_film in (True, False):
            model, zero = make(lab, "Zero3")
            with FILMS.film_units(zero.units) if with_film else contextlib.nullcontext():
                for _ in range(2):
                    take_step(model, zero)
            shards.append([unit.shard.detach() for unit in zero.units.values()])
        return all(map(torch.equal, *shards)), "matplotlib" in sys.modules

    assert launch(step, load_solved_lab("zero"), world_size=2).values == [(True, False)] * 2


def test_memory_can_be_measured_around_a_film():
    def step(lab):
        model, zero = make(lab, "Zero3")
        with measure("step"), FILMS.film_units(zero.units) as film:
            take_step(model, zero)
        return film

    run = launch(step, load_solved_lab("zero"), world_size=2)
    highest = max(frame.parameter_bytes for frame in run.values[0].frames)
    assert events(run.values[0]) == events_of(STAGE_3)
    assert run["step"].peak_bytes[0]["parameters"] == highest


@pytest.mark.parametrize("units", [[], {}, {nn.Linear(1, 1): "a unit"}])
def test_something_else_is_refused(units):
    with pytest.raises(LaunchError, match="as in `Zero3"):
        FILMS.film_units(units).__enter__()
