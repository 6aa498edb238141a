"""A cluster's tools for a hang answer, also where PyTorch lacks them."""

import ctypes
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import begin, launch

TOOLS, HANGS = load_solved_lab("cluster_tools"), load_solved_lab("when_it_hangs")


def test_torchfrtrace_reads_gloos_records():
    seen = launch(HANGS.observe_mistake, HANGS.OPERATION, 1, world_size=3, device="cpu").values
    records = {"a run": [one["record"] for one in seen]}
    (report,) = launch(TOOLS.analyze, records, world_size=1, device="cpu").values
    assert "sequence number: 7" in report["a run"]
    if "rank 1: expected all_reduce, found barrier" not in report["a run"]:  # it was the measure
        assert "rank 0: expected barrier, found all_reduce" in report["a run"]


def test_without_torchfrtrace_one_sentence_says_so():
    def is_told_without_it(tools):
        sys.modules[tools.ANALYZER.rpartition(".")[0]] = None
        return tools.analyze({"a run": []})

    found = launch(is_told_without_it, TOOLS, world_size=1, device="cpu").values[0]
    assert found == {"a run": "this PyTorch comes without torchfrtrace"}


def test_a_server_that_does_not_know_the_question_is_no_error():
    assert "too long" in TOOLS.ask_all("/" + 100 * "x", 1)[0][1]
    assert TOOLS.place_in("") == TOOLS.last_call_in("") == "this PyTorch does not tell"


def test_ranks_that_hang_tell_where_they_stand():
    with tempfile.TemporaryDirectory() as folder:
        running = begin(TOOLS.train_and_serve, HANGS.LEFT, 1, folder, world_size=3, device="cpu")
        rows = TOOLS.ask_all(folder, 3)
        assert TOOLS.ask(folder, 0, "no_such_question") == ""
        running.stop()
    assert [rank for rank, place, _ in rows if "train_and_serve" in place] == [1]
    assert [call for _, _, call in rows] == [
        "7 all_reduce [68]", "6 all_reduce [2]", "7 all_reduce [68]"]  # fmt: skip


def test_a_rank_that_keeps_the_interpreters_lock_still_shows_its_record():
    def keep_the_lock(tools, folder):
        dist.all_reduce(torch.ones(68))
        with tools.serve_rank(folder):
            Path(folder, "now").touch()
            ctypes.PyDLL(None).usleep(3_000_000)

    with tempfile.TemporaryDirectory() as folder:
        running = begin(keep_the_lock, TOOLS, folder, world_size=1, device="cpu")
        end = time.monotonic() + 20
        while not Path(folder, "now").exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        times = [time.monotonic()]
        record = json.loads(TOOLS.ask(folder, 0, "fr_trace_json"))
        times.append(time.monotonic())
        stacks = TOOLS.ask(folder, 0, "dump_traceback")
        times.append(time.monotonic())
        running.stop()
    assert record["entries"][-1]["input_sizes"] == [[68]]
    assert "keep_the_lock" in stacks
    assert times[1] - times[0] < 1 < times[2] - times[1]  # the stacks have to wait for the lock
