"""Films of a data parallel step: what they note on real ranks, and what their pictures show."""

import sys

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu as launch
from helpers import load_solved_lab
from matplotlib.colors import to_hex
from torch import nn
from torch.optim import optimizer as optimizers

from pedagogy_lib import LaunchError
from pedagogy_lib.basics.closeness import close, close_in_float32
from pedagogy_lib.basics.units import two_digits

FILMS, PICTURES = load_solved_lab("step_films"), load_solved_lab("step_pictures")
STATES, Frame, StepFilm = FILMS.STATES, FILMS.Frame, FILMS.StepFilm
plot_step, STATE_COLORS = PICTURES.plot_step, PICTURES.STATE_COLORS
LR = 0.1
NO_COLOR = "#00000000"
FORWARD = [f"forward: layer {layer}" for layer in (0, 2, 4)]
EVENTS = [
    *FORWARD,
    "backward: the gradient of 4.bias is ready",
    "backward: the gradient of 4.weight is ready",
    "bucket 0 is full: its all-reduce begins",
    "backward: the gradient of 2.bias is ready",
    "backward: the gradient of 2.weight is ready",
    "bucket 1 is full: its all-reduce begins",
    "backward: the gradient of 0.bias is ready",
    "backward: the gradient of 0.weight is ready",
    "bucket 2 is full: its all-reduce begins",
    "averages are in place",
    "step",
]
BEGINS = [event for event in EVENTS if "bucket" in event]


def three_layers():
    torch.manual_seed(0)
    layers = nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)
    return nn.Sequential(*layers).double()


def backward(model):
    """On other data on each rank."""
    torch.manual_seed(dist.get_rank())
    model(torch.randn(8, 4).double()).square().mean().backward()


def film_model(model, buckets, finish, call=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    with FILMS.film_step(model, buckets) as film:
        backward(call or model)
        finish()
        optimizer.step()
    return film


def film_ddp(lab, all_reduce="begin_all_reduce"):
    ways = {
        "begin_all_reduce": lab.begin_all_reduce,
        "in another thread": lab.make_async(dist_all_reduce),
    }
    ddp = lab.DDP(three_layers(), 160, ways[all_reduce])
    return film_model(ddp.model, ddp.buckets, ddp.finish, ddp)


def dist_all_reduce(x, group):
    dist.all_reduce(x, group=group)


@pytest.fixture(scope="module")
def films():
    return launch(film_ddp, load_solved_lab("data_parallel"), world_size=4).values


def events(film):
    return [frame.event for frame in film.frames]


# ---- What is noted --------------------------------------------------------------------------


@pytest.mark.parametrize("rank", range(4))
def test_events_come_in_their_order(films, rank):
    """An all-reduce begins before the backward is over: that is what the film is for."""
    assert events(films[rank]) == EVENTS
    assert films[rank].names == ["0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"]
    assert films[rank].buckets == [2, 2, 1, 1, 0, 0]


def test_a_parameter_goes_through_all_states(films):
    for film in films:
        for column in range(6):
            states = [STATES.index(frame.states[column]) for frame in film.frames]
            assert states == sorted(states)
            assert set(states) == set(range(column < 2, 6)), "the first layer never waits"
        at = dict(zip(events(film), film.frames))
        early, ready, travelling = "forward done", "gradient ready", "travelling"
        assert at[EVENTS[0]].states == ["forward done"] * 2 + ["waiting"] * 4
        assert at[EVENTS[4]].states == [early] * 4 + [ready] * 2
        assert at[EVENTS[6]].states == [early] * 3 + [ready] + [travelling] * 2
        assert at["averages are in place"].states == ["averaged"] * 6
        assert at["step"].states == ["stepped"] * 6


def test_local_gradients_become_their_average(films):
    local = torch.tensor([film.frames[-3].gradients for film in films]).double()
    after = torch.tensor([film.frames[-2].gradients for film in films]).double()
    assert (local[0] != local[1]).all()
    assert close_in_float32(after, local.mean(dim=0).expand(4, 6))
    assert not [
        film for film in films if film.frames[-2].gradients != films[0].frames[-2].gradients
    ]
    assert films[0].frames[3].gradients[:5] == [None] * 5


def test_only_the_step_changes_weights(films):
    for film in films:
        *before, last = film.frames
        assert not [frame for frame in before if frame.weights != before[0].weights]
        expected = [w - LR * g for w, g in zip(before[0].weights, last.gradients, strict=True)]
        assert close(last.weights, expected)


def test_all_reduces_of_another_thread():
    films = launch(
        film_ddp, load_solved_lab("data_parallel"), "in another thread", world_size=2
    ).values
    for film in films:
        assert sorted(events(film)) == sorted(EVENTS)
        assert [event for event in events(film) if event in BEGINS] == BEGINS
        assert film.frames[-1].gradients == films[0].frames[-1].gradients


def test_alone_the_average_is_the_gradient_itself():
    (film,) = launch(film_ddp, load_solved_lab("data_parallel"), world_size=1).values
    assert events(film) == EVENTS
    assert film.frames[-2].gradients == film.frames[-3].gradients


def test_ranks_need_no_library_for_pictures():
    def step(lab):
        film_ddp(lab)
        return "matplotlib" in sys.modules

    assert launch(step, load_solved_lab("data_parallel"), world_size=1).values == [False]


def test_a_step_of_distributed_data_parallel():
    """Its all-reduces are begun in C++, where nobody looks on."""

    def step():
        model = three_layers()
        ddp = nn.parallel.DistributedDataParallel(model)
        return film_model(model, [list(model.parameters())], lambda: None, ddp)

    films = launch(step, world_size=2).values
    for film in films:
        assert events(film) == [e for e in EVENTS if e not in BEGINS]
        assert film.frames[-2].states == ["averaged"] * 6
        assert film.frames[-2].gradients == films[0].frames[-2].gradients
        assert film.frames[-3].gradients != films[0].frames[-3].gradients or film is films[0]
    assert plot_step(films, 11).png()


@pytest.mark.parametrize("together", [True, False])
def test_averaging_after_the_backward(together):
    """Equal sizes, in another order than the buckets': a gradient is known by its memory."""

    def step(lab, sync):
        model = three_layers()
        buckets = sync.make_buckets(model.parameters(), 160 if together else 1)
        if together:
            return film_model(model, buckets, lambda: lab.average_buckets(buckets))
        return film_model(model, buckets, lambda: lab.average_gradients(model))

    labs = load_solved_lab("data_parallel"), load_solved_lab("gradient_sync_visualizer")
    for film in launch(step, *labs, world_size=2).values:
        begun = [event for event in events(film) if event.startswith("bucket")]
        assert events(film)[3:-2] == [e for e in EVENTS[3:-2] if e not in BEGINS] + begun
        assert begun == (
            BEGINS
            if together
            else [f"bucket {number} is full: its all-reduce begins" for number in range(5, -1, -1)]
        )


def test_without_any_communication_nothing_is_averaged():
    def step():
        model = three_layers()
        return film_model(model, [list(model.parameters())], lambda: dist.all_reduce(torch.ones(1)))

    for film in launch(step, world_size=2).values:
        assert events(film) == [e for e in EVENTS[:-2] if e not in BEGINS] + ["step"]
        assert film.frames[-2].states == ["gradient ready"] * 6


def test_parameters_without_a_part_in_the_loss():
    """Rank 1 leaves out a layer: its bucket begins with what there is, and is averaged."""

    def step(lab):
        model = three_layers()
        ddp = lab.DDP(model, 160)
        with FILMS.film_step(model, ddp.buckets) as film:
            x = torch.ones(2, 4).double()
            (model(x) if dist.get_rank() == 0 else model[4](model[0](x))).sum().backward()
            ddp.finish()
        return film

    first, second = launch(step, load_solved_lab("data_parallel"), world_size=2).values
    assert events(first) == EVENTS[:-1]
    assert "the all-reduce of bucket 1 begins" in events(second)
    assert second.frames[-1].states == ["averaged"] * 6
    assert second.frames[-1].gradients == first.frames[-1].gradients
    assert "forward: layer 2" not in events(second)
    picture = plot_step([first, second], 5)
    assert title_of(picture) == "5 of 13: on rank 0, backward: the gradient of 4.weight is ready"
    assert "rank 1 (bucket 0 is full: its all-reduce begins): " in picture.alt
    assert plot_step([first, second], 13).png()


def test_frozen_and_tied_parameters_and_one_that_owns_itself():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
            self.one, self.two = nn.Linear(4, 4).double(), nn.Linear(4, 4).double()
            self.two.weight = self.one.weight
            self.two.bias.requires_grad_(False)

        def forward(self, x):
            return self.scale * self.two(self.one(x))

    def step():
        model = Odd()
        return film_model(
            model, [[model.one.weight]], lambda: dist.all_reduce(model.one.weight.grad)
        )

    (film,) = launch(step, world_size=1).values
    assert film.names == ["scale", "one.weight", "one.bias"]
    assert film.buckets == [None, 0, None]
    assert events(film)[:3] == ["forward: layer one", "forward: layer two", "forward: the model"]
    assert film.frames[-1].states == ["stepped"] * 3
    assert plot_step([film], 1).png()


# ---- What is left behind --------------------------------------------------------------------


def all_hooks(model):
    return [
        dist.all_reduce,
        dist.distributed_c10d.all_reduce,
        *(len(module._forward_hooks) for module in model.modules()),
        *(list(p._post_accumulate_grad_hooks or ()) for p in model.parameters()),
        list(optimizers._global_optimizer_pre_hooks),
        list(optimizers._global_optimizer_post_hooks),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_behind(fails):
    def step(lab):
        ddp = lab.DDP(three_layers(), 160)
        ours = optimizers.register_optimizer_step_post_hook(lambda *_: None)
        before = all_hooks(ddp.model)
        try:
            with FILMS.film_step(ddp.model, ddp.buckets) as film:
                changed = all_hooks(ddp.model) != before
                backward(ddp)
                ddp.finish()
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        same, frames = all_hooks(ddp.model) == before, len(film.frames)
        backward(ddp)
        ddp.finish()
        ours.remove()
        return changed, same, len(film.frames) - frames

    assert (
        launch(step, load_solved_lab("data_parallel"), world_size=2).values == [(True, True, 0)] * 2
    )


def test_buckets_of_another_model():
    def step():
        before = all_hooks(model := three_layers())
        with pytest.raises(LaunchError, match="this very model's parameters"):
            FILMS.film_step(model, [list(three_layers().parameters())]).__enter__()
        return all_hooks(model) == before

    assert launch(step, world_size=1).values == [True]


def test_filming_changes_no_number():
    def step(lab):
        film_ddp(lab)  # so that both come after the same use of the generator
        weights = []
        for with_film in (True, False):
            ddp = lab.DDP(three_layers(), 160)
            if with_film:
                film_model(ddp.model, ddp.buckets, ddp.finish, ddp)
            else:
                optimizer = torch.optim.SGD(ddp.model.parameters(), lr=LR)
                backward(ddp)
                ddp.finish()
                optimizer.step()
            weights.append([p.detach() for p in ddp.model.parameters()])
        return all(map(torch.equal, *weights))

    assert launch(step, load_solved_lab("data_parallel"), world_size=2).values == [True, True]


# ---- The picture ----------------------------------------------------------------------------


def title_of(picture):
    return picture.figure.axes[0].get_title(loc="left")


def cells(picture):
    """The states of all cells, by their colours, in the order of ranks and parameters."""
    state_of = {color.lower(): state for state, color in STATE_COLORS.items()}
    patches = picture.figure.axes[0].patches
    colors = [to_hex(patch.get_facecolor(), keep_alpha=True) for patch in patches]
    return [state_of[color[:7]] for color in colors if color != NO_COLOR]


def find_outlined(picture):
    """(rank, number of the column) of every outlined cell."""
    patches = picture.figure.axes[0].patches
    lefts = sorted({round(patch.get_x(), 6) for patch in patches})
    return [
        (int(patch.get_y()), lefts.index(round(patch.get_x(), 6)))
        for patch in patches
        if to_hex(patch.get_facecolor(), keep_alpha=True) == NO_COLOR
    ]


@pytest.mark.parametrize("number", range(1, len(EVENTS) + 1))
def test_every_cell_has_its_states_colour(films, number):
    picture = plot_step(films, number)
    assert cells(picture) == [s for film in films for s in film.frames[number - 1].states]
    assert title_of(picture) == f"{number} of 14: {EVENTS[number - 1]}"
    assert picture.alt.startswith(f"{title_of(picture)}. Ranks go at their own pace")


def test_what_has_just_changed_is_outlined(films):
    assert find_outlined(plot_step(films, 1)) == [(rank, c) for rank in range(4) for c in (0, 1)]
    assert find_outlined(plot_step(films, 5)) == [(rank, 4) for rank in range(4)]
    assert find_outlined(plot_step(films, 6)) == [(rank, c) for rank in range(4) for c in (4, 5)]
    assert len(find_outlined(plot_step(films, 13))) == 24


def test_readers_are_told_states_and_numbers(films):
    frame = films[1].frames[4]
    weight, bias = (two_digits(gradient) for gradient in frame.gradients[4:])
    told = plot_step(films, 5).alt
    assert f"gradient ready 4.weight {weight}, 4.bias {bias}. rank 2: forward done" in told
    assert "rank 0: forward done 0.weight None, 0.bias None, 2.weight None, 2.bias None;" in told


def test_bucket_0_is_at_the_right_end(films):
    texts = plot_step(films, 1).figure.axes[0].texts
    places = {t.get_text(): t.get_position()[0] for t in texts}
    assert places["bucket 2"] < places["bucket 1"] < places["bucket 0"]
    assert places["0.weight"] < places["bucket 2"] < places["0.bias"]
    assert places["4.weight"] < places["bucket 0"] < places["4.bias"]


def test_frames_that_do_not_exist(films):
    for number in (0, 15):
        with pytest.raises(LaunchError, match=f"frames 1 to 14 of this step, not {number}"):
            plot_step(films, number)


def large_film(ranks, columns):
    names = [f"encoder.blocks.{c}.attention.weight" for c in range(columns)]
    frame = Frame("step", ["gradient ready"] * columns, [-0.001234 * 0.1 ** (c % 3)
                  for c in range(columns)], [0.0] * columns)  # fmt: skip
    return [StepFilm(names, [10 + c // 2 for c in range(columns)], [frame])] * ranks


@pytest.mark.parametrize("ranks, columns", [(1, 1), (8, 12), (3, 7)])
def test_nothing_overlaps(ranks, columns):
    picture = plot_step(large_film(ranks, columns), 1)
    picture.figure.draw_without_rendering()
    (axes,) = picture.figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    boxes += [axes.title.get_window_extent(), axes._left_title.get_window_extent()]
    boxes += [legend.get_window_extent() for legend in picture.figure.legends]
    boxes = [box for box in boxes if box.width > 0]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert box.x0 >= 0 and box.x1 <= picture.figure.bbox.width
    numbers = [text for text in axes.texts if text.get_text().startswith("−")]
    white = [patch.get_window_extent() for patch in axes.patches if patch.get_linewidth() > 2]
    for text, cell in zip(numbers, white, strict=True):
        assert cell.x0 < text.get_window_extent().x0 < text.get_window_extent().x1 < cell.x1
