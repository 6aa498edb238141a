"""What ranks print: live with its rank, complete afterwards, and never too much."""

import code
import os
import pdb
import subprocess
import sys
import time

import pytest
import torch.distributed as dist
from helpers import scratch_left

from pedagogy_lib import LaunchError, launch
from pedagogy_lib.ranks.output import Output, ProgressLine


def test_lines_carry_their_rank(capsys):
    run = launch(lambda: print("line 1\nline 2 of", dist.get_rank()), world_size=2)
    assert run.output == ["line 1\nline 2 of 0\n", "line 1\nline 2 of 1\n"]
    lines = capsys.readouterr().out.splitlines()
    for rank in range(2):
        mine = [line for line in lines if line.startswith(f"[rank {rank}]")]
        assert mine == [f"[rank {rank}] line 1", f"[rank {rank}] line 2 of {rank}"]


def test_lines_appear_while_ranks_run(tmp_path, monkeypatch):
    """A rank that waits for its own line to be shown."""

    class Screen:
        def write(self, text):
            if "ready" in text:
                (tmp_path / "shown").touch()

        def flush(self):
            pass

    def wait_for_screen(folder):
        print("ready")
        while not (folder / "shown").exists():
            pass

    monkeypatch.setattr(sys, "stdout", Screen())
    launch(wait_for_screen, tmp_path, world_size=1, timeout=20)


def test_last_line_without_end(capsys):
    run = launch(lambda: print("no end", end=""), world_size=2)
    assert run.output == ["no end", "no end"]
    assert sorted(capsys.readouterr().out.splitlines()) == ["[rank 0] no end", "[rank 1] no end"]


@pytest.mark.parametrize(
    "write",
    [
        lambda: print("text", file=sys.stderr),
        lambda: os.write(1, b"text\n"),
        lambda: os.write(2, b"text\n"),
        lambda: os.system("echo text") and None,
        lambda: subprocess.run(["echo", "text"], check=True) and None,
    ],
    ids=["stderr", "descriptor 1", "descriptor 2", "os.system", "subprocess"],
)
def test_every_way_to_write(write, capsys):
    assert launch(write, world_size=1).output == ["text\n"]
    assert capsys.readouterr().out == "[rank 0] text\n"


def test_letters_beyond_ascii(capsys):
    run = launch(lambda: print("Größe → 3 µs \ud800"), world_size=1)
    assert run.output == ["Größe → 3 µs \\ud800\n"]
    assert "[rank 0] Größe → 3 µs" in capsys.readouterr().out


def test_a_hundred_thousand_lines_do_not_drown_the_notebook(capsys):
    def babble():
        for number in range(100_000):
            print("line", number)

    run = launch(babble, world_size=2)
    assert run.output == ["".join(f"line {n}\n" for n in range(100_000))] * 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 202
    more = "prints more: once the launch has returned, its first 2.00 MB and its end are in "
    assert f"[rank 1] … {more}run.output[1]" in lines


def test_endless_output_is_cut(capsys):
    def shout():
        for _ in range(50):
            print("x" * 99_999)
        print("the end")

    (text,) = launch(shout, world_size=1).output
    assert text.startswith("x" * 99_999 + "\n")
    assert "\n… (2.99 MB left out) …\nxxx" in text
    assert text.endswith("xxx\nthe end\n")
    assert len(text) == 2_000_000 + len("\n… (2.99 MB left out) …\n") + 10_000
    assert len(capsys.readouterr().out) < 300_000


def test_output_of_exactly_what_is_kept_is_not_called_cut():
    (text,) = launch(lambda: print("x" * 1_999_999), world_size=1).output
    assert text == "x" * 1_999_999 + "\n"


def test_the_last_words_of_a_rank_that_printed_much_are_the_last():
    def babble_and_die():
        print("x\n" * 1_500_000)
        print("the last words")
        os._exit(3)

    with pytest.raises(LaunchError, match=r"\n  \| the last words$"):
        launch(babble_and_die, world_size=1)


class Broken:
    """A screen that shows nothing."""

    encoding = "utf-8"

    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error

    def flush(self):
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        BrokenPipeError(),
        ValueError("I/O operation on closed file."),
        RuntimeError("the front end has gone"),
    ],
)
def test_a_screen_that_fails_ends_no_launch(error, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Broken(error))
    run = launch(lambda: print("é", dist.get_rank()), world_size=2)
    assert run.output == ["é 0\n", "é 1\n"]


PROGRAM = """
import sys
from pedagogy_lib import launch

def step():
    for number in range(5000):
        print("é", number)

if __name__ == "__main__":
    run = launch(step, world_size=2)
    print("kept", [text.count("é") for text in run.output], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("end", "environ"),
    [
        pytest.param(">/dev/full", {}, id="full"),
        pytest.param("| true", {}, id="closed pipe", marks=pytest.mark.deep),
        pytest.param(">&-", {}, id="closed", marks=pytest.mark.deep),
        pytest.param("| cat", {"PYTHONIOENCODING": "ascii"}, id="ascii", marks=pytest.mark.deep),
    ],
)
def test_a_program_whose_output_fails_still_gets_its_run(end, environ, tmp_path, start):
    (tmp_path / "program.py").write_text(PROGRAM)
    program = start(["sh", "-c", f"'{sys.executable}' program.py {end}"], tmp_path, **environ)
    out, _ = program.communicate(timeout=60)
    assert "kept [5000, 5000]\n" in out
    assert "Traceback" not in out
    assert scratch_left(tmp_path) == []
    if environ:
        assert "[rank 1] \\xe9 0\n" in out


def test_output_before_an_error_is_shown(capsys):
    def print_and_fail():
        print("before")
        print("the last words", end="")
        raise ValueError("boom")

    with pytest.raises(LaunchError):
        launch(print_and_fail, world_size=1)
    assert capsys.readouterr().out == "[rank 0] before\n[rank 0] the last words\n"


def test_what_cpp_prints_as_it_dies_stands_in_the_error_alone(capsys):
    def die():
        os.write(2, b"before\nterminate called after throwing an instance of 'X'\n  what():  y\n")
        os.abort()

    with pytest.raises(LaunchError, match=r"instance of 'X'\n.*what\(\):  y"):
        launch(die, world_size=1)
    assert capsys.readouterr().out == "[rank 0] before\n"


def test_ranks_have_nothing_to_read():
    with pytest.raises(LaunchError, match=r"EOFError: nobody can answer input\(\)"):
        launch(input, world_size=1)


def test_a_bar_is_shown_in_its_last_state_and_kept_in_all(capsys):
    def draw():
        for percent in range(101):
            print(f"\r{'#' * 50} {percent}%", end="", flush=True)
        print("\nafter")

    (text,) = launch(draw, world_size=1).output
    assert text.count("\r") == 101
    *_, last, after = capsys.readouterr().out.splitlines()
    assert (last, after) == (f"[rank 0] {'#' * 50} 100%", "[rank 0] after")


def test_a_bar_is_shown_before_its_line_ends(tmp_path, capsys):
    def draw():
        os.write(1, b"\r10%")
        time.sleep(1)
        os.write(1, b"\r100%\r\n")

    launch(draw, world_size=1)
    assert capsys.readouterr().out.splitlines() == ["[rank 0] 10%", "[rank 0] 100%"]


def test_bars_of_several_lines_end_in_their_last_state(capsys):
    output = Output(0)
    for percent in (b"1%", b"50%", b"100%"):  # the cursor moves as with rich's and nested bars
        output.add(b"\r\x1b[2K\x1b[1A\x1b[2Kouter\n\x1b[31minner " + percent)
    output.add(b"\x1b[0m\n\x1b[?25h")
    output.close()
    assert capsys.readouterr().out.splitlines()[-1] == "[rank 0] \x1b[31minner 100%\x1b[0m"


def stop_by_pdb():
    pdb.set_trace()


def stop_after_an_error():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        pdb.post_mortem(error.__traceback__)


@pytest.mark.parametrize(
    "stop",
    [stop_by_pdb, stop_after_an_error, lambda: dist.breakpoint(0), lambda: code.interact()],
)
def test_debuggers_are_refused_at_the_learners_line(stop):
    with pytest.raises(LaunchError, match="nobody can answer a debugger") as caught:
        launch(stop, world_size=1)
    assert "test_output.py:" in str(caught.value)


def test_a_second_process_group_is_explained():
    with pytest.raises(LaunchError, match="already connected the ranks: leave init_process_group"):
        launch(lambda: dist.init_process_group("gloo"), world_size=1)


def test_a_worker_of_spawn_is_explained():
    with pytest.raises(LaunchError, match=r"launch\(\) passes no rank.*dist.get_rank\(\)"):
        launch(lambda rank, world_size: rank, 2, world_size=2)


@pytest.mark.parametrize("stream", [None, "closed"])
def test_progress_without_a_screen_is_not_shown(monkeypatch, tmp_path, stream):
    if stream:
        stream = (tmp_path / "screen").open("w")
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    ProgressLine().show("0 of 2 ranks")
