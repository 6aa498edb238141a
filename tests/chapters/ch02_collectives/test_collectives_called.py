"""Each way of calling a collective gives the same, and costs what the part says."""

import pytest
from helpers import load_solved_lab

from pedagogy_lib import launch

CALLED = load_solved_lab("collectives_called")


def test_a_flat_gather_needs_half_the_memory_of_a_joined_list():
    run = launch(CALLED.measure_gathers, 10_000, 2, world_size=3, device="cpu")
    assert all(run.values)
    (_, listed, in_list, _), (_, flat, in_tensor, _) = CALLED.rows_of_ways(run, 120_000, 40_000)
    assert (in_list, in_tensor) == ("2.0", "1.0")
    assert float(listed) == float(flat) == pytest.approx(2 / 3, abs=0.02)


def test_objects_are_two_calls_and_need_the_pickles_as_well():
    run = launch(CALLED.measure_objects, 2, world_size=3, device="cpu")
    assert all(is_same for _, is_same in run.values)
    state, _ = run.values[0]
    assert len(run["all_gather_object: memory"].calls[0]) == 2
    memory = {name: float(shown) for name, _, shown, _ in CALLED.rows_of_ways(run, state, state)}
    assert memory == {"all_gather_object": 2 * 3 + 1, "as tensors": 3 + 1}


def test_coalesced_sums_send_as_few_messages_as_a_bucket():
    run = launch(CALLED.measure_small_sums, 16, 100, 2, world_size=2, device="cpu")
    messages = {name: int(count) for name, count, *_ in
                CALLED.rows_of_small_sums(run, 16 * 400, 144)}  # fmt: skip
    each, begun, coalesced, bucket = messages.values()
    assert each == begun == 16 * bucket
    assert coalesced == bucket


def test_a_view_is_sent_with_its_whole_storage():
    run = launch(CALLED.measure_view, 100_000, world_size=2, device="cpu")
    of_view, of_clone = (run[name].sent_bytes[0] for name in run.labels)
    assert run.labels == ["the view", "its clone"]
    assert 400_000 < of_view < 402_000
    assert of_clone < 2_000
