"""What `make bench` prints: rows as they come, how far it is, and what is left of it when it ends.

A tiny part stands for the real ones, one of which runs at the end.
"""

import json
import os
import pty
import signal
import subprocess
import sys
from random import Random
from statistics import median

import pytest
from helpers import ROOT, SLACK_SECONDS, alive, environment, family, scratch_left, wait_until
from selection import parametrize

BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))

from launch_time import Program  # noqa: E402
from overhead_statistics import Overhead  # noqa: E402
from rows import HEADS, Screen  # noqa: E402

RUN = f"""
import sys
sys.path[:0] = [{str(BENCHMARKS)!r}, "."]
import run
run.PARTS = {{"tiny": "a part for tests"}}
sys.exit(run.main(sys.argv[1:]))
"""
PREAMBLE = """
import pathlib, time
from rows import Measurement, Row
def wait():
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
"""
WAITING = """
def first():
    yield Row("the first row", "1 ms", "2 ms", "0.50x", "<= 1x", True)
    yield "almost"
    wait()
    yield Row("the second row", "1234.5 ms", "2 ms", "617.25x", "<= 1x", False)
def measurements():
    return [Measurement("both rows", first)]
"""
FAILING = """
def fails():
    yield Row("the first row", "1 ms")
    raise ValueError("no such wire")
def works():
    yield Row("the second row", "2 ms", limit="<= 3 ms", holds=True)
def measurements():
    return [Measurement("what fails", fails), Measurement("what works", works)]
"""
LAUNCHING = """
import time
from pedagogy_lib import launch
def rank():
    pathlib.Path("began").touch()
    time.sleep(600)
def first():
    yield Row("the first row", "1 ms", limit="<= 3 ms", holds=True)
    launch(rank, world_size=2, device="cpu", timeout=600)
    yield Row("the second row", "2 ms")
def measurements():
    return [Measurement("both rows", first)]
"""


def command(folder, part, *words):
    (folder / "tiny.py").write_text(PREAMBLE + part)
    return [sys.executable, "-c", RUN, *words]


def read_until(program, text) -> list[str]:
    """Lines of its output, up to one with this text."""
    lines = []
    for line in program.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(lines)


def test_a_row_appears_as_soon_as_it_is_measured(start, tmp_path):
    program = start(command(tmp_path, WAITING), tmp_path)
    assert "the first row" in read_until(program, "the first row")[-1]
    assert program.poll() is None  # it waits for us
    (tmp_path / "go").touch()
    assert "the second row" in program.stdout.read()
    assert program.wait() == 0


def run_to_end(start, folder, part, *words) -> tuple[list[str], int]:
    (folder / "go").touch()
    program = start(command(folder, part, *words), folder)
    return program.stdout.read().splitlines(), program.wait()


def test_without_a_terminal_it_prints_plain_lines(start, tmp_path):
    lines, _ = run_to_end(start, tmp_path, WAITING)
    assert not any(mark in line for line in lines for mark in "\r\033")
    progress = [i for i, line in enumerate(lines) if "tiny, measurement 1 of 1: both rows" in line]
    assert len(progress) == 1
    assert "the first row" in lines[progress[0] + 1]


def test_columns_are_aligned_in_every_row(start, tmp_path):
    lines, _ = run_to_end(start, tmp_path, WAITING)
    (heads,) = (line for line in lines if line.split()[:2] == HEADS[:2])
    first, second = (next(line for line in lines if line.endswith(f"{n} row")) for n in
                     ("the first", "the second"))  # fmt: skip
    for line, verdict in ((first, "yes"), (second, "no")):
        assert line.index(verdict) == heads.index("holds")
        assert line.index("the ") == heads.index("what")
        assert line.index("<= 1x") == heads.index("limit")


def test_the_summary_says_which_limits_hold(start, tmp_path):
    lines, status = run_to_end(start, tmp_path, WAITING)
    at = next(i for i, line in enumerate(lines) if line.startswith("Taken in "))
    assert lines[at + 1 :] == ["1 of 2 limits hold; not:", "  the second row: 617.25x, limit <= 1x"]
    assert status == 0  # a limit that does not hold is a result, not a failure


def test_a_measurement_that_fails_does_not_end_the_others(start, tmp_path):
    lines, status = run_to_end(start, tmp_path, FAILING)
    assert "FAILED: what fails: ValueError: no such wire" in lines
    assert any("the second row" in line for line in lines)
    assert lines[-2:] == ["1 of 1 limits hold.", "FAILED: what fails"]
    assert status == 1


def test_the_chosen_measurements_alone(start, tmp_path):
    lines, status = run_to_end(start, tmp_path, FAILING, "tiny", "--match", "works")
    assert not any("the first row" in line for line in lines)
    assert any("tiny, measurement 1 of 1: what works" in line for line in lines)
    assert status == 0


@pytest.mark.deep
def test_ctrl_c_keeps_the_rows_and_leaves_nothing(start, tmp_path):
    program = start(command(tmp_path, LAUNCHING, "--json", "figures.json"), tmp_path)
    before = read_until(program, "the first row")
    assert wait_until((tmp_path / "began").exists, 60.0)
    children = family(program.pid)
    program.send_signal(signal.SIGINT)
    lines = before + program.stdout.read().splitlines()
    assert program.wait() == 130
    assert "1 of 1 limits hold." in lines
    assert lines[-1].startswith("Interrupted")
    assert not any("Traceback" in line for line in lines)
    assert wait_until(lambda: not alive(children), SLACK_SECONDS), children
    assert not scratch_left(tmp_path)
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [row["what"] for row in rows] == ["the first row"]


def test_on_a_terminal_one_line_updates_itself(tmp_path):
    ours, its = pty.openpty()
    program = subprocess.Popen(
        command(tmp_path, WAITING), cwd=tmp_path, env=environment(), stdout=its, stderr=its,
    )  # fmt: skip
    os.close(its)
    text = ""
    while text.count("s] tiny, measurement 1 of 1: both rows (almost)") < 2:
        text += os.read(ours, 1_000).decode()
    (tmp_path / "go").touch()
    while not text.endswith("limit <= 1x\r\n"):
        text += os.read(ours, 1_000).decode()
    program.wait()
    os.close(ours)
    lines = text.replace("\r\n", "\n").split("\n")
    seen = [line.split("\r\033[K")[-1] for line in lines]  # what is left of each
    assert not any("measurement 1 of 1" in line for line in seen)
    assert [line.split()[-3:] for line in seen if line.endswith(" row")] == [
        ["the", "first", "row"],
        ["the", "second", "row"],
    ]


class Terminal:
    """Keeps what is written to it."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_does_not_break_into_a_line_of_others():
    terminal = Terminal()
    screen = Screen(terminal)
    screen.write("half a ")
    screen.begin_measurement("tiny, measurement 1 of 1")
    screen.write("line\n")
    assert terminal.text.endswith("half a line\n")


def test_it_says_a_word_before_it_imports_torch(start, tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch is imported')")
    program = start([sys.executable, BENCHMARKS / "run.py", "collectives"], tmp_path,
                    PYTHONPATH=str(tmp_path))  # fmt: skip
    lines = program.stdout.read().splitlines()
    assert lines[0].startswith("To measure: collectives.")
    assert "torch is imported" in lines


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["speed"], "there is no part 'speed'; the parts are launch_time, machines, "),
        (["--match", "no such thing"], "No measurement of these parts has 'no such thing' in its"),
    ],
)
def test_what_does_not_exist_is_said_in_one_sentence(start, tmp_path, words, sentence):
    """Without a part, --match looks through all of them."""
    program = start([sys.executable, BENCHMARKS / "run.py", *words], tmp_path)
    assert sentence in program.stdout.read().splitlines()[-1]
    assert program.wait() == 2


@parametrize("way", ["launch", "spawn"], quick=1)
def test_a_launcher_that_is_interrupted_leaves_nothing(way):
    began = []
    with pytest.raises(KeyboardInterrupt), Program(way) as program:
        print(8, file=program.process.stdin)
        assert wait_until(lambda: family(program.process.pid), 60.0)
        began += family(program.process.pid)
        raise KeyboardInterrupt
    assert began
    assert not alive([*began, program.process.pid])
    assert not os.path.exists(program.folder.name)


def test_the_margin_holds_the_true_median_in_95_of_100_runs():
    chance, hits = Random(0), 0
    for _ in range(500):
        run = Overhead([chance.gauss(2.0, 5.0) for _ in range(120)])
        hits += abs(run.median - 2.0) <= run.margin
    assert 450 <= hits <= 495


def test_more_rounds_make_the_margin_smaller_and_one_disturbance_does_not_matter():
    chance = Random(0)
    percents = [chance.gauss(2.0, 5.0) for _ in range(480)]
    assert Overhead(percents).margin < Overhead(percents[:60]).margin
    disturbed = Overhead([*percents, 900.0])
    assert disturbed.median == pytest.approx(median(percents), abs=disturbed.margin)


@pytest.mark.deep
def test_a_real_part_end_to_end(start, tmp_path):
    words = "measure_overhead", "--match", "small blocks", "--json", "figures.json"
    program = start([sys.executable, BENCHMARKS / "run.py", *words], tmp_path)
    lines = program.stdout.read().splitlines()
    assert program.wait() == 0, lines
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert len(rows) == 3
    assert not [row for row in rows if not any(line.endswith(row["what"]) for line in lines)]
    assert lines[-1] == "0 of 0 limits hold."
