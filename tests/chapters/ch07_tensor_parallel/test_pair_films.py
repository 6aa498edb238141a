"""Films of a column and a row layer: what real ranks have in each frame."""

import cloudpickle
import pairs
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import launch_on_cpu as launch
from helpers import load_solved_lab
from pairs import DY, FILMS, A, B, X, linear, sum_twice, take
from torch import nn

from pedagogy_lib import LaunchError

cloudpickle.register_pickle_by_value(pairs)  # so that ranks need not find it

PLACEMENTS = load_solved_lab("placements")
PARTIAL, REPLICATE, SHARD = PLACEMENTS.PARTIAL, PLACEMENTS.REPLICATE, PLACEMENTS.SHARD

# What is new, by event; its placement; and whether all ranks together have it right.
STEP = [
    ("before the step", "X values Replicate", "A values Shard", "B values Shard"),
    ("forward: X enters the parallel region, nothing is sent", "X values Replicate"),
    ("forward: X times each rank's columns of A", "H values Shard"),
    ("forward: the activation, H = f(XA)", "H values Shard"),
    ("forward: H times each rank's rows of B", "Y values Partial"),
    ("forward: all-reduce of Y", "Y values Replicate"),
    ("backward: gradient of Y", "Y gradients Replicate"),
    ("backward: gradient of each rank's summand of Y, nothing is sent", "Y gradients Replicate"),
    ("backward: gradient of each rank's rows of B", "B gradients Shard"),
    ("backward: gradient of H", "H gradients Shard"),
    ("backward: gradient of XA, through f", "H gradients Shard"),
    ("backward: gradient of each rank's columns of A", "A gradients Shard"),
    ("backward: gradient of X through each rank's own columns", "X gradients Partial"),
    ("backward: all-reduce of the gradient of X", "X gradients Replicate"),
]


@pytest.fixture(scope="module")
def films():
    return launch(take, load_solved_lab("tensor_parallel"), world_size=2).values


def compute_reference():
    """{"Y values": matrix}, and gradients."""
    x, a, b = (torch.tensor(m, requires_grad=True) for m in (X, A, B))
    inner = x @ a
    hidden = inner.relu()
    y = hidden @ b
    made = {"X": x, "A": a, "B": b, "H inside": inner, "H": hidden, "Y": y}
    gradients = torch.autograd.grad(y, list(made.values()), torch.tensor(DY))
    return {f"{name} values": tensor.detach() for name, tensor in made.items()} | {
        f"{name} gradients": tensor for name, tensor in zip(made, gradients)
    }


def news(frame) -> list[str]:
    """`Y values Replicate`, and "wrong" behind it if it is."""
    found = []
    for kind, matrix in frame.new:
        held = getattr(frame, kind)[matrix]
        found.append(f"{matrix} {kind} {held.placement}{'' if held.is_right else ' wrong'}")
    return found


def script(film) -> list[tuple]:
    return [(frame.event, *news(frame)) for frame in film.frames]


def find_last_frames(films, kind, matrix):
    return [getattr(film.frames[-1], kind)[matrix] for film in films]


def part(tensor, held):
    """What lies where a rank says that its part lies."""
    (row, column), height, width = held.start, len(held.values), len(held.values[0])
    return tensor[row : row + height, column : column + width].tolist()


# ---- What is noted --------------------------------------------------------------------------


def test_the_events_of_a_step(films):
    for rank, film in enumerate(films):
        assert script(film) == STEP
        assert (film.rank, film.n) == (rank, 2)


def test_numbers_are_those_of_one_process(films):
    expected = compute_reference()
    inside = {"forward: X times each rank's columns of A", "backward: gradient of XA, through f"}
    for number, (event, *_) in enumerate(STEP):
        frames = [film.frames[number] for film in films]
        for kind, matrix in frames[0].new:
            key = f"{matrix}{' inside' if event in inside else ''} {kind}"
            helds = [getattr(frame, kind)[matrix] for frame in frames]
            if helds[0].placement == PARTIAL:
                total = sum(torch.tensor(held.values) for held in helds)
                assert torch.equal(total, expected[key])
            else:
                for held in helds:
                    assert list(map(list, held.values)) == part(expected[key], held)
            assert not [held for held in helds if held.shape != tuple(expected[key].shape)]


def test_parts_lie_one_after_another(films):
    for kind in ("values", "gradients"):
        assert [held.start for held in find_last_frames(films, kind, "A")] == [(0, 0), (0, 2)]
        assert [held.start for held in find_last_frames(films, kind, "H")] == [(0, 0), (0, 2)]
        assert [held.start for held in find_last_frames(films, kind, "B")] == [(0, 0), (2, 0)]
        assert [held.start for held in find_last_frames(films, kind, "Y")] == [(0, 0), (0, 0)]


def test_two_all_reduces_are_all_that_is_sent(films):
    """Each of 8 numbers of 4 bytes; 2(n-1)/n of them."""
    for film in films:
        sent = {frame.event: frame.sent for frame in film.frames if frame.sent}
        assert sent == {
            "forward: all-reduce of Y": [("all_reduce", 32)],
            "backward: all-reduce of the gradient of X": [("all_reduce", 32)],
        }


def test_h_is_first_xa_and_its_gradient_comes_last(films):
    """XA until the activation in frame 4; its gradient from frame 11 on."""
    for film in films:
        inner = [sorted(frame.inner) for frame in film.frames]
        assert inner == [[]] * 2 + [["values"]] + [[]] * 7 + [["gradients"]] * 4


def test_values_stay_and_gradients_come_later(films):
    names = [(set(frame.values), set(frame.gradients)) for frame in films[0].frames]
    assert names[0] == ({"X", "A", "B"}, set())
    assert names[5] == ({"X", "A", "H", "B", "Y"}, set())
    assert names[8][1] == {"Y", "B"}
    assert names[-1][1] == {"X", "A", "H", "B", "Y"}


# ---- Other layers ---------------------------------------------------------------------------


def uneven(lab):
    """3 features on 2 ranks, biases, float64, another activation, gradients of ones."""
    torch.manual_seed(0)
    column = lab.ColumnLinear(nn.Linear(4, 3).double())
    row = lab.RowLinear(nn.Linear(3, 2).double())
    row.weight.requires_grad_(False)
    before = column.enter, row.leave
    x = torch.randn(5, 4, dtype=torch.float64)
    once = FILMS.film_pair(column, row, x, torch.tanh)
    again = FILMS.film_pair(column, row, x, torch.tanh)
    assert (
        again == once and (column.enter, row.leave) == before and not column.weight._backward_hooks
    )
    return once


def test_uneven_parts_biases_and_frozen_weights():
    films = launch(uneven, load_solved_lab("tensor_parallel"), world_size=2).values
    for film in films:
        names = [text for _, *texts in script(film) for text in texts]
        assert not [text for text in names if "wrong" in text or "None" in text]
        events = [frame.event for frame in film.frames]
        assert "forward: Y and the bias" in events
        assert "backward: gradient of each rank's rows of B" not in events
        assert "B" not in film.frames[-1].gradients
    assert [len(held.values[0]) for held in find_last_frames(films, "values", "A")] == [2, 1]
    assert [held.shape for held in find_last_frames(films, "values", "A")] == [(4, 3)] * 2
    assert [held.start for held in find_last_frames(films, "gradients", "H")] == [(0, 0), (0, 2)]
    assert sum(count for frame in films[0].frames for _, count in frame.sent) == 8 * (5 * 2 + 5 * 4)


def drop_sum(lab, column, row):
    row.leave = lambda y, group: y


def drop_copy(lab, column, row):
    column.enter = lambda x, group: x


def drop_split(lab, column, row):
    column.weight, row.weight = linear(A).weight, linear(B).weight


def bias_everywhere(lab, column, row):
    row.leave = lambda y, group: lab.leave(y + dist.get_rank() + 1, group)


def sum_by_messages(lab, column, row):
    def total(x, group):
        other, peer = torch.empty_like(x), 1 - dist.get_rank()
        sending = dist.isend(x.contiguous(), peer)
        dist.recv(other, peer)
        sending.wait()
        return x + other

    row.leave = lambda y, group: lab.AllReduce.apply(y, group, total)


def never_entered(lab, column, row):
    type(column).forward = lambda self, x: F.linear(x, self.weight)
    type(row).forward = lambda self, x: F.linear(x, self.weight)


CHANGES = (
    drop_sum, drop_copy, sum_twice, drop_split, bias_everywhere, sum_by_messages,
    never_entered,
)  # fmt: skip


@pytest.fixture(scope="module")
def film_variants():
    """{change: films} of one launch."""

    def take_all(lab):
        return {change.__name__: take(lab, change) for change in CHANGES}

    ranks = launch(take_all, load_solved_lab("tensor_parallel"), world_size=2).values
    return {change: [films[change.__name__] for films in ranks] for change in CHANGES}


def test_without_the_sum_each_rank_has_its_summand(film_variants):
    films = film_variants[drop_sum]
    assert [held.placement for held in find_last_frames(films, "values", "Y")] == [PARTIAL] * 2
    event = "forward: Y leaves the parallel region, nothing is sent"
    assert (event, "Y values Partial") in script(films[0])


def test_without_the_copy_the_gradient_of_x_stays_partial(film_variants):
    films = film_variants[drop_copy]
    event = "backward: gradient of X, nothing is sent"
    assert (event, "X gradients Partial") in script(films[0])
    assert [held.placement for held in find_last_frames(films, "gradients", "X")] == [PARTIAL] * 2


def test_what_is_summed_too_often_is_wrong(film_variants):
    for change, sent in ((sum_twice, 64), (drop_split, 32)):
        films = film_variants[change]
        frame = next(f for f in films[1].frames if f.event == "forward: all-reduce of Y")
        assert news(frame) == ["Y values Replicate wrong"]
        assert sum(count for _, count in frame.sent) == sent
    assert find_last_frames(film_variants[drop_split], "values", "A")[0].placement == REPLICATE


def test_other_summands_than_those_of_one_process(film_variants):
    films = film_variants[bias_everywhere]
    frame = next(f for f in films[0].frames if f.event == "forward: all-reduce of Y")
    assert news(frame) == ["Y values Replicate wrong"]


def test_messages_of_a_sum_of_ones_own(film_variants):
    frame = next(f for f in film_variants[sum_by_messages][0].frames if f.sent)
    assert frame.event == "forward: messages with parts of Y"
    assert frame.sent == [("send", 32)]
    assert news(frame) == ["Y values Replicate"]


def test_layers_that_do_not_use_their_gates(film_variants):
    films = film_variants[never_entered]
    events = [frame.event for frame in films[0].frames]
    assert "forward: the output of the row layer" in events
    assert not any("enters" in event or "summand" in event for event in events)
    assert find_last_frames(films, "values", "Y")[0].placement == PARTIAL
    assert find_last_frames(films, "gradients", "X")[0].placement == PARTIAL
    assert not any(frame.sent for frame in films[0].frames)


def test_one_rank_alone():
    (film,) = launch(take, load_solved_lab("tensor_parallel"), world_size=1).values
    assert {held.placement for held in film.frames[-1].values.values()} == {REPLICATE}
    assert [frame.event for frame in film.frames] == [event for event, *_ in STEP]


def test_what_cannot_be_filmed():
    class Layer:
        weight = bias = group = enter = leave = None

    with pytest.raises(LaunchError, match=r"this RowLinear has to have .*\.leave"):
        FILMS.film_pair(Layer(), nn.Linear(1, 1), torch.ones(1, 1))
    with pytest.raises(LaunchError, match="x of two dims"):
        FILMS.film_pair(Layer(), Layer(), torch.ones(1, 1, 1))


# ---- Placements, without ranks --------------------------------------------------------------


def placement(parts, whole):
    helds = PLACEMENTS.place_parts([torch.tensor(part) for part in parts], torch.tensor(whole))
    (found,) = {(held.placement, held.is_right) for held in helds}
    return found


@pytest.mark.parametrize(
    "parts, whole, expected",
    [
        ([[[1.0, 2.0]]] * 2, [[1.0, 2.0]], (REPLICATE, True)),
        ([[[1.0, 2.0]]] * 2, [[2.0, 4.0]], (PARTIAL, True)),  # equal summands
        ([[[1.0, 2.0]]] * 2, [[3.0, 6.0]], (REPLICATE, False)),
        ([[[1.0, 2.0]], [[3.0, 4.0]]], [[4.0, 6.0]], (PARTIAL, True)),
        ([[[1.0, 2.0]], [[3.0, 4.0]]], [[5.0, 6.0]], (None, False)),
        ([[[1.0]], [[2.0]]], [[1.0, 2.0]], (SHARD, True)),
        ([[[1.0]], [[2.0]]], [[1.0], [2.0]], (SHARD, True)),
        ([[[1.0]], [[1.0]]], [[1.0, 1.0]], (SHARD, True)),  # equal parts
        ([[[1.0]], [[2.0]]], [[2.0, 1.0]], (SHARD, False)),
        ([[[1.0]], [[2.0]]], [[1.0, 2.0, 3.0]], (None, False)),
    ],
)
def test_placements(parts, whole, expected):
    assert placement(parts, whole) == expected
