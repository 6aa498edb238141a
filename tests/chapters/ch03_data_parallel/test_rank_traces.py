"""Traces are read as the profiler writes them, and what they tell is right."""

import gzip
import json
import random

import pytest
from helpers import load_solved_lab

TRACES = load_solved_lab("rank_traces")


def event(name, start, microseconds, kind="kernel"):
    return {"ph": "X", "name": name, "cat": kind, "ts": start, "dur": microseconds}


GPU = [
    event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2_000, 4_000),
    event("sgemm_128x64", 1_000, 3_000),
    event("Memcpy HtoD", 0, 500, "gpu_memcpy"),
    event("Memcpy DtoD", 4_500, 500, "gpu_memcpy"),  # covers no communication
    event("nccl:all_reduce", 1_500, 100, "user_annotation"),  # the call, and not the kernel
    event("aten::mm", 100, 9_000, "cpu_op"),
]
CPU = [
    event("gloo:all_reduce", 2_000, 4_000, "user_annotation"),
    event("aten::mm", 1_000, 3_000, "cpu_op"),
    event("aten::mm", 1_500, 100, "cpu_op"),  # within the one before
    event("aten::add", 4_500, 100, "cpu_op"),
    {"ph": "i", "name": "gloo:all_reduce", "ts": 5_000},
]


@pytest.mark.parametrize("events", [GPU, CPU])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_trace_with_gpus_consists_of_kernels_and_another_one_of_products(
    events, is_packed, tmp_path
):
    text = json.dumps({"traceEvents": events, "baseTimeNanoseconds": 7_000_000_000}).encode()
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text) if is_packed else text)
    trace = TRACES.read_trace(path)
    assert trace.communication == [pytest.approx((7.002, 7.006))]
    assert TRACES.covered_seconds(trace.computing) == pytest.approx(0.003)
    assert TRACES.exposed_seconds(*trace) == pytest.approx(0.002)


def test_exposed_and_covered_communication_add_up():
    chance = random.Random(0)
    for _ in range(200):
        spans = [[(a, a + chance.randrange(6)) for a in chance.choices(range(30), k=5)]
                 for _ in range(2)]  # fmt: skip
        ticks = [{t for a, b in each for t in range(a, b)} for each in spans]
        assert TRACES.exposed_seconds(*spans) == len(ticks[0] - ticks[1])
        assert TRACES.covered_seconds(spans[0]) == len(ticks[0])


@pytest.mark.parametrize("ahead", [(0.0, 0.0, 0.0), (0.0, -0.25, 64.0), (8.0, 4.0, 0.0)])
def test_the_last_to_come_has_the_shortest_call_whatever_the_clocks(ahead):
    starts = [(0.25, 2.0), (0.5, 2.0), (0.125, 1.5)]
    traces = [
        TRACES.Trace([(clock + one, clock + 1.0), (clock + two, clock + 3.0)], [])
        for clock, (one, two) in zip(ahead, starts, strict=True)
    ]
    assert TRACES.rows_of_arrivals(traces) == [
        [1, 2, 1, "375 ms", "750 500 875"], [2, 2, 0, "500 ms", "1000 1000 1500"]]  # fmt: skip


def test_traces_without_collectives_keep_their_clock():
    traces = [TRACES.Trace([(0.0, 1.0)], []), TRACES.Trace([], [(1.0, 2.0)])]
    assert TRACES.align_clocks(traces) == traces
    assert TRACES.align_clocks(traces[::-1]) == traces[::-1]
