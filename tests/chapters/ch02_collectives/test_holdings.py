"""Pictures of who holds what, and films of rings: drawn from what real ranks had."""

import time

import pytest
import torch
import torch.distributed as dist
from helpers import ROOT, load_solved_lab
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, Rectangle

from coursekit.labs import Lab
from pedagogy_lib import (
    LaunchError,
    film,
    launch,
    plot_holdings,
)  # fmt: skip
from pedagogy_lib.pictures.chunk_holders import RANK_COLORS

PICTURES = load_solved_lab("message_pictures")
plot_exchanges, plot_ring = PICTURES.plot_exchanges, PICTURES.plot_ring
SOLVED = ROOT / "solutions" / "labs" / "collectives.py"


def stripes(axes):
    """The colours in a grid, as (row, column, rank of the colour)."""
    found = set()
    for patch in axes.patches:
        color = to_hex(patch.get_facecolor(), keep_alpha=True)
        if isinstance(patch, Rectangle) and color[:7].upper() in map(str.upper, RANK_COLORS):
            rank = [c.upper() for c in RANK_COLORS].index(color[:7].upper())
            found.add((int(patch.get_y()), int(patch.get_x()), rank))
    return found


def test_a_cell_has_a_stripe_for_each_rank_in_it():
    values = [[1, 0, 5], [2, 7, 0], [4, 0, 6]]
    picture = plot_holdings({"now": values, "later": values})
    expected = {
        (row, column, rank)
        for row, cells in enumerate(values)
        for column, value in enumerate(cells)
        for rank in range(3)
        if value >> rank & 1
    }
    first, second = picture.figure.axes
    assert stripes(first) == stripes(second) == expected
    assert first.get_title(loc="left") == "now"
    assert "now: rank 0: 0 – 0+2, rank 1: 1 0+1+2 –, rank 2: 2 – 1+2" in picture.alt


def test_a_chunk_may_bring_its_number():
    picture = plot_holdings({"before": [[1.1, 1.2], [2.1, 2.2]], "after": [[1.1, 2.1], [1.2, 2.2]]})
    assert "after: rank 0: 0.0 1.0, rank 1: 0.1 1.1" in picture.alt
    written = [text.get_text() for text in picture.figure.axes[1].texts]
    assert written == ["0", "0", "1", "1", "0", "1"]  # the last two are the heads of columns


def test_only_complete_sums_are_framed():
    picture = plot_holdings({"now": [[3, 1], [2, 3]]})
    frames = [patch for patch in picture.figure.axes[0].patches if patch.get_linewidth() > 1]
    assert sorted((int(f.get_y()), int(f.get_x())) for f in frames) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("grids", [[[[1]] * 9], [[[1]], [[1], [2]]]])
def test_grids_that_cannot_be_drawn(grids):
    with pytest.raises(LaunchError, match="up to 8"):
        plot_holdings({str(index): grid for index, grid in enumerate(grids)})


def film_of(world_size, name="all_reduce_ring", lab="collectives"):
    path = SOLVED.with_stem(lab)
    collectives = Lab(lab, path, path)

    def step():
        x = torch.full((dist.get_world_size(),), 2.0 ** dist.get_rank())
        with film(x) as seen:
            getattr(collectives, name)(x)
        return seen

    return launch(step, world_size=world_size, device="cpu").values


@pytest.mark.parametrize("n", [1, 2, 3, 4, pytest.param(6, marks=pytest.mark.deep)])
def test_the_film_of_a_ring(n):
    films = film_of(n)
    for rank, seen in enumerate(films):
        assert seen.frames[0] == [2.0**rank] * n
        assert seen.frames[-1] == [2.0**n - 1] * n
        assert len(seen.moves) == len(seen.frames) - 1 == 2 * (n - 1)
        if n > 1:
            half_way = seen.frames[n - 1]
            assert half_way[rank] == 2**n - 1, "rank k has the complete chunk k"
            assert seen.moves[0] == (rank - 1) % n
    for step in range(len(films[0].frames)):
        picture = plot_ring(films, step)
        arrows = [p for p in picture.figure.axes[0].patches if isinstance(p, FancyArrowPatch)]
        assert len(arrows) == (n if step else 0)
        assert picture.png()
    title = picture.figure.axes[0].get_title(loc="left")
    assert title.startswith("At the start" if n == 1 else f"Step {2 * (n - 1)} of {2 * (n - 1)}")


@pytest.mark.parametrize("n", [2, 4, pytest.param(8, marks=pytest.mark.deep)])
def test_the_film_of_halving_and_doubling_beside_a_ring(n):
    halved = film_of(n, "all_reduce_halving_doubling", "halving_doubling")
    for rank, seen in enumerate(halved):
        rounds = [rank ^ n >> k for k in range(1, n.bit_length())]
        assert seen.peers == rounds + rounds[::-1]
        assert seen.lengths == [n >> k for k in range(1, n.bit_length())] + [
            1 << k for k in range(len(rounds))
        ]
        assert seen.frames[-1] == [2.0**n - 1] * n
    films = {"ring": film_of(n), "halving-doubling": halved}
    for step in (0, 1, 2 * (n - 1)):
        picture = plot_exchanges(films, step)
        arrows = [sum(isinstance(p, FancyArrowPatch) for p in axes.patches)
                  for axes in picture.figure.axes]  # fmt: skip
        last = step <= len(halved[0].moves)
        ring = n if n > 2 else 1
        assert arrows == [ring * (step > 0), n // 2 * (step > 0 and last)]
        assert picture.png()


def test_what_exchanges_cannot_draw():
    with pytest.raises(LaunchError, match=r"takes \{name: films\}, not"):
        plot_exchanges([])


def test_a_message_that_is_no_part_of_the_tensor():
    def step():
        x, peer = torch.zeros(2), 1 - dist.get_rank()
        with film(x) as seen:
            sending = dist.isend(torch.ones(2), peer)
            dist.recv(x, peer)
            sending.wait()
        return seen

    seen = launch(step, world_size=2, device="cpu").values[0]
    assert seen.moves == [None]
    assert seen.frames == [[0.0, 0.0], [1.0, 1.0]]


def test_what_came_early_is_not_seen_before_it_is_waited_for():
    def step():
        x, peer = torch.zeros(2), 1 - dist.get_rank()
        with film(x) as seen:
            receiving = dist.irecv(x[1:], peer)
            dist.isend(torch.ones(1), peer).wait()
            dist.barrier()  # the peer's message has been sent, too
            deadline = time.perf_counter() + 10
            while x[1] == 0 and time.perf_counter() < deadline:
                time.sleep(0.01)
            came = x[1].item()
            sending = dist.isend(x[:1], peer)
            receiving.wait()
            dist.recv(torch.zeros(1), peer)
            sending.wait()
        return came, seen

    for came, seen in launch(step, world_size=2, device="cpu").values:
        assert came == 1
        assert seen.frames == [[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]


def test_ranks_that_send_unequally_make_no_ring():
    with pytest.raises(LaunchError, match="equally often"):
        plot_ring(film_of(4, "all_reduce_star"))
