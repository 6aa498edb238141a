"""Arrows between ranks, and of slices: each message once, from its sender to who needs it."""

from coursekit.content.ch08_pipeline_parallel.exercises.shared.actions import (
    actions_of,
    make_memory_schedule,
)
from helpers import load_solved_lab
from matplotlib.text import Annotation

from pedagogy_lib import simulate

CROSSING = load_solved_lab("crossing_messages")
messages_of, plot_messages = CROSSING.messages_of, CROSSING.plot_messages
draw_slices = load_solved_lab("slice_gradients").draw_slices


def one_f_one_b(ranks, m):
    schedule = make_memory_schedule(lambda rank, ranks, m: ranks - rank)
    return [list(schedule(rank, ranks, m)) for rank in range(ranks)]


def arrows_of(axes):
    return [one for one in axes.texts if isinstance(one, Annotation) and one.arrow_patch]


def test_each_message_goes_from_its_sender_to_its_receiver():
    timeline = simulate(one_f_one_b(3, 4))
    found = messages_of(timeline, timeline.seconds)
    assert len(found) == 2 * 4 * (3 - 1)
    for kind, (sent, sender), (used, receiver) in found:
        assert receiver - sender == (1 if kind == "F" else -1)
        assert sent <= used


def test_halves_and_chunks_send_as_well():
    halves = simulate([actions_of("F0 I0 W0"), actions_of("F0 I0 W0")])
    assert [kind for kind, *_ in messages_of(halves, halves.seconds)] == ["I", "F"]
    chunks = [actions_of("F0 F0.1 B0.1 B0")] * 2
    timeline = simulate(chunks)
    assert len(messages_of(timeline, timeline.seconds)) == 2 * 3


def test_a_part_of_a_timeline_has_fewer_arrows():
    rows = one_f_one_b(4, 6)
    whole, part = plot_messages(rows), plot_messages(rows, until=10)
    many, few = (len(arrows_of(picture.figure.axes[0])) for picture in (whole, part))
    assert many == 2 * 6 * 3 > few > 0
    assert f"{many} messages between 4 ranks" in whole.alt


def test_slices_look_at_those_before_them():
    picture = draw_slices(4)
    for axes in picture.figure.axes:
        assert len(arrows_of(axes)) == 4 + 4 * 5 // 2  # inputs to keys, and keys to outputs
    assert "slice 3 · first" in [text.get_text() for text in picture.figure.axes[1].texts]
