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
