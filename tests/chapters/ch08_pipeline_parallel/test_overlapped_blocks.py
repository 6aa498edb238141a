"""A forward and a backward as one block: its order, its time, and the schedule made of blocks."""

import itertools

import pytest
from helpers import load_solved_lab

BLOCKS = load_solved_lab("overlapped_blocks")


def run_pair(layers, message):
    chunks = [BLOCKS.forward_pieces(layers), BLOCKS.backward_pieces(layers)]
    return BLOCKS.run_pieces(chunks, message), chunks


def test_each_piece_runs_once_after_what_it_needs_and_alone_on_its_row():
    for layers, message in itertools.product((1, 2, 4), (0.0, 0.5, 1.5, 3.0)):
        run, chunks = run_pair(layers, message)
        assert len(run) == sum(map(len, chunks))
        for number, pieces in enumerate(chunks):
            mine = [(piece, begin, end) for chunk, piece, begin, end in run if chunk == number]
            assert sorted(map(str, (one[0] for one in mine))) == sorted(map(str, pieces))
            ends = {}
            for piece, begin, end in mine:
                ends.setdefault(piece, []).append((begin, end))
            for piece, of_piece in ends.items():
                if piece.after is not None:
                    needed = pieces[piece.after]
                    assert min(ends[needed])[1] <= min(of_piece)[0] + 1e-9
        for sends in (True, False):
            spans = sorted((a, b) for _, piece, a, b in run if piece.sends == sends)
            assert all(x[1] <= y[0] + 1e-9 for x, y in itertools.pairwise(spans))


def test_a_pair_is_never_quicker_than_its_longer_row_and_at_most_one_message_longer():
    for layers, message in itertools.product((1, 2, 4), (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)):
        took = BLOCKS.times_of_blocks(layers, message)
        bound = max(6 * layers, 4 * layers * message)
        assert bound <= took["F&B"] <= bound + message
        assert took["F"] == layers * (2 + 2 * message)
        assert took["F&B"] <= took["F"] + took["B"]


def test_computing_is_in_the_order_of_the_report_in_the_middle_of_a_block():
    run, _ = run_pair(4, 1.5)
    computed = [f"{piece.name}({piece.kind})" for _, piece, _, _ in run if not piece.sends]
    period = ["MLP(I)", "MLP(W)", "MLP(F)", "attention(I)", "attention(W)", "attention(F)"]
    assert computed[1:7] == computed[7:13] == period


@pytest.mark.parametrize("name", ["DualPipe", "DualPipeV"])
def test_without_messages_the_readmes_bubble_is_exact(name):
    times = BLOCKS.times_of_blocks(4, 0.0)
    for p, m in ((2, 8), (4, 8), (6, 24)):
        line = BLOCKS.simulate_step(name, p, m, times)
        published = BLOCKS.published_bubble(name, p, times)
        assert [line.seconds - busy for busy in line.busy_seconds] == pytest.approx([published] * p)
        slower = BLOCKS.simulate_step(name, p, m, BLOCKS.times_of_blocks(4, 1.5), joined=False)
        joined = BLOCKS.simulate_step(name, p, m, BLOCKS.times_of_blocks(4, 1.5))
        assert joined.seconds < slower.seconds


def half_without_weights(layers):
    """Return the pieces of a backward without those of weights, written out."""
    names = ["combine", "MLP", "dispatch", "attention"] * layers
    return [
        BLOCKS.Piece(name, "I", name in ("combine", "dispatch"), number - 1 if number else None)
        for number, name in enumerate(names)
    ]


def test_a_half_for_the_inputs_hides_no_message():
    """Its W come later in the schedule, so they cannot run while its messages travel."""
    for layers, message in itertools.product((1, 2, 4), (0.0, 0.5, 1.0, 1.5, 3.0)):
        took = BLOCKS.times_of_blocks(layers, message)
        alone = BLOCKS.length_of(BLOCKS.run_pieces([half_without_weights(layers)], message))
        assert took["I"] == alone == layers * (2 + 2 * message)
        assert max(took["I"], 4 * layers) <= took["B"] <= took["I"] + took["W"]


@pytest.mark.parametrize("name, ranks, m", [("DualPipe", 4, 8), ("DualPipeV", 3, 7)])
def test_an_i_takes_its_time_in_the_schedule(name, ranks, m):
    times = BLOCKS.times_of_blocks(4, 1.5)
    line = BLOCKS.simulate_step(name, ranks, m, times)
    took = {
        kind: {round(b - a, 9) for row, spans in zip(line.rows, line.spans)
               for (one, _, _), (a, b) in zip(row, spans) if one == kind}
        for kind in "IW"
    }  # fmt: skip
    assert took == {"I": {times["I"] / times["F"]}, "W": {times["W"] / times["F"]}}


@pytest.mark.parametrize("joined", [True, False])
def test_a_processor_computes_less_than_its_blocks_last(joined):
    """DualPipe gives a rank 8 forwards and backwards of 8 and 16 pieces of computing."""
    times = BLOCKS.times_of_blocks(4, 1.5)
    line = BLOCKS.simulate_step("DualPipe", 4, 8, times, joined)
    shares = BLOCKS.computing_shares(line, times)
    assert shares == pytest.approx([8 * 24 / (line.seconds * times["F"])] * 4)
    assert all(share < busy / line.seconds for share, busy in zip(shares, line.busy_seconds))
    without = BLOCKS.times_of_blocks(4, 0.0)
    line = BLOCKS.simulate_step("DualPipe", 4, 8, without, joined)
    busy = [one / line.seconds for one in line.busy_seconds]
    assert BLOCKS.computing_shares(line, without) == pytest.approx(busy)
