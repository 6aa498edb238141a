"""Ranks that raise, die or are killed: which rank, what, and on which of the learner's lines."""

import builtins
import contextlib
import ctypes
import os
import resource
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from helpers import alive, failure, wait_until

from pedagogy_lib import LaunchError, RankError, launch

VICTIM = 1


def everyone_waits():
    dist.all_reduce(torch.ones(3))


def raise_in_one_rank():
    if dist.get_rank() == VICTIM:
        raise ValueError("boom")
    everyone_waits()


def divide_in_a_helper():
    def ratio(a, b):
        return a / b

    if dist.get_rank() == VICTIM:
        ratio(1, dist.get_rank() - VICTIM)
    everyone_waits()


def fail_inside_a_library():
    if dist.get_rank() == VICTIM:
        torch.ones(2) @ torch.ones(3)
    everyone_waits()


def import_nothing():
    if dist.get_rank() == VICTIM:
        import no_such_module  # noqa: F401
    everyone_waits()


def leave_through_sys_exit():
    if dist.get_rank() == VICTIM:
        sys.exit("enough")
    everyone_waits()


@pytest.mark.parametrize(
    ("step", "exception", "what", "source"),
    [
        (raise_in_one_rank, ValueError, "boom", 'raise ValueError("boom")'),
        (divide_in_a_helper, ZeroDivisionError, "division by zero", "return a / b"),
        (fail_inside_a_library, RuntimeError, "inconsistent tensor size", "torch.ones(2) @"),
        (import_nothing, ModuleNotFoundError, "no_such_module", "import no_such_module"),
        (leave_through_sys_exit, SystemExit, "enough", 'sys.exit("enough")'),
    ],
)
def test_exception_in_one_rank(step, exception, what, source):
    error = failure(step)
    assert type(error) is RankError
    assert error.rank == VICTIM
    assert type(error.exception) is exception
    message = str(error)
    assert message.startswith(f"rank {VICTIM} raised {exception.__name__}: ")
    assert what in message
    assert source in str(error.place)
    assert source in message
    assert "./tests/bench/ranks/test_faults.py:" in message


def test_exception_in_every_rank():
    def fail():
        raise KeyError("the same everywhere")

    error = failure(fail, world_size=3)
    assert isinstance(error.exception, KeyError)
    assert str(error).startswith("all 3 ranks raised KeyError: 'the same everywhere'\n  at ")
    assert str(error).count('raise KeyError("the same everywhere")') == 1


def test_first_of_several_exceptions_is_blamed():
    def fail_one_after_the_other():
        everyone_waits()
        time.sleep(0.0 if dist.get_rank() == 2 else 0.1)
        raise ValueError(dist.get_rank())

    error = failure(fail_one_after_the_other, world_size=3)
    assert error.rank == 2
    assert str(error).startswith(
        "rank 2 raised ValueError: 2\n  at ./tests/bench/ranks/test_faults.py:"
    )
    assert str(error).endswith(
        "\nother ranks failed too, each with an error of its own:"
        "\n  rank 0 raised ValueError: 0\n  rank 1 raised ValueError: 1"
    )


def test_a_rank_that_lost_its_neighbour_is_told_apart_from_one_with_its_own_error():
    def fail():
        everyone_waits()
        if dist.get_rank() == 0:
            raise ValueError("boom")
        if dist.get_rank() == 1:
            raise KeyError("other")
        dist.recv(torch.ones(1), src=0)

    message = str(failure(fail, world_size=3))
    assert " raised ValueError: boom\n" in message
    assert "raised KeyError: 'other'\n" in message
    assert "other ranks failed too, each with an error of its own:\n  rank" in message
    assert 'raise KeyError("other")' in message
    assert "rank 2 raised" not in message


def test_many_ranks_that_fail_are_cut():
    def fail():
        raise ValueError(f"{dist.get_rank()} " + "x" * 3000 + "\nsecond line")

    message = str(failure(fail, world_size=12))
    assert message.endswith("\n  … and 3 more")
    assert len(message) < 5000


def leave_memory(count):
    """Let this process have `count` more bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = count + pages * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not keep to this limit")
@pytest.mark.parametrize("holder", [None, torch], ids=["a variable", "a module"])
def test_memory_that_is_full_of_small_lists_is_told(holder):
    def fill():
        leave_memory(30_000_000)
        pile = []
        if holder is not None:
            holder.pile = pile
        while True:
            pile.append([0] * 50)

    error = failure(fill, world_size=2)
    assert isinstance(error.exception, MemoryError)
    assert "raised MemoryError\n" in str(error)
    # Which of the two depends on the last bytes: whether Python could still note the line.
    told = "no memory was left to note the line; make what the", "pile.append([0] * 50)"
    assert any(words in str(error) for words in told)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not keep to this limit")
def test_a_large_request_for_memory_is_told_with_its_line():
    def ask():
        leave_memory(30_000_000)
        return [0] * 10**9

    error = failure(ask, world_size=2)
    assert isinstance(error.exception, MemoryError)
    assert error.place.source() == "return [0] * 10**9"
    assert "no memory was left" not in str(error)


def test_a_rank_that_leaves_the_group_before_it_fails_is_blamed():
    def clean_up_as_many_programs_do():
        everyone_waits()
        rank = dist.get_rank()
        try:
            if rank == VICTIM:
                raise ValueError("boom")
            everyone_waits()
        finally:
            dist.destroy_process_group()
            time.sleep(0.2 * (rank == VICTIM))

    error = failure(clean_up_as_many_programs_do)
    assert error.rank == VICTIM
    assert isinstance(error.exception, ValueError)


def test_exception_that_cannot_be_pickled_is_told_in_words():
    class Stubborn(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")

    def fail():
        raise Stubborn("one", "two")

    error = failure(fail, world_size=2)
    assert error.exception is None
    assert "raised Stubborn: one and two" in str(error)
    assert 'raise Stubborn("one", "two")' in str(error)


def test_exception_that_hangs_while_it_is_packed_is_told_in_words():
    class Slow(Exception):
        def __reduce__(self):
            return time.sleep, (100,)

    def fail():
        raise Slow("mine")

    error = failure(fail, world_size=2, timeout=2)
    assert error.exception is None
    assert str(error).startswith(
        "all 2 ranks raised Slow: mine\n  at ./tests/bench/ranks/test_faults.py"
    )


def test_a_builtin_that_is_replaced_is_put_back():
    def replace():
        builtins.len = builtins.type = builtins.open = None
        return dist.get_rank()

    def fail():
        builtins.len = builtins.type = builtins.str = None
        raise ValueError("mine")

    assert launch(replace, world_size=2).values == [0, 1]
    assert "raised ValueError: mine\n  at ./tests/bench/ranks/test_faults.py" in message_of(fail)


def test_own_exception_class_comes_back():
    class OwnError(Exception):
        pass

    def fail():
        raise OwnError("mine")

    assert type(failure(fail, world_size=2).exception) is OwnError


def message_of(step) -> str:
    return str(failure(step, world_size=2))


def test_a_very_long_message_is_cut():
    def fail():
        raise ValueError("x" * 3_000_000)

    message = message_of(fail)
    assert "x" * 2000 + "… (2,998,000 characters more)\n  at " in message
    assert len(message) < 2500


def test_a_message_that_cannot_be_shown():
    class Silent(Exception):
        def __str__(self):
            return 1 / 0

    def fail():
        raise Silent

    message = message_of(fail)
    assert message.startswith("all 2 ranks raised Silent: <its message cannot be shown>\n  at ")


def test_cause_is_told():
    def fail():
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("no such\nsetting") from error

    beginning = (
        "all 2 ranks raised ValueError: no such\nsetting\n  caused by KeyError: 'key'\n  at "
    )
    assert message_of(fail).startswith(beginning)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes and groups came with Python 3.11")
def test_notes_and_members_are_told():
    def fail():
        error = ExceptionGroup("two", [ValueError("one"), KeyError("other")])  # noqa: F821
        error.add_note("on two\nlines")
        raise error

    assert "\n  note: on two lines\n  member: ValueError: one\n  member: KeyError: 'other'\n" in (
        message_of(fail)
    )


@pytest.mark.parametrize("notes", [5, "text", [object]])
def test_notes_of_any_kind_do_not_hide_the_error(notes):
    class Shy:
        def __str__(self):
            return 1 / 0

    def fail():
        error = ValueError("boom")
        error.__notes__ = [Shy()] if notes == [object] else notes
        raise error

    assert message_of(fail).startswith("all 2 ranks raised ValueError: boom\n  ")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_many_members_are_cut():
    def fail():
        raise ExceptionGroup("many", [ValueError(i) for i in range(30)])  # noqa: F821

    message = message_of(fail)
    assert "  member: ValueError: 9\n  … and 20 more\n" in message
    assert "ValueError: 10" not in message


def exit_3():
    os._exit(3)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def read_address_zero():
    ctypes.string_at(0)


def abort():
    os.abort()


def failure_of_victim(dies):
    """What the launch raises when one rank dies while the others wait for it."""

    def step():
        everyone_waits()
        if dist.get_rank() == VICTIM:
            dies()
        everyone_waits()

    return failure(step)


@pytest.mark.parametrize(
    ("die", "sentence"),
    [
        (exit_3, "ended with exit code 3 before it returned"),
        (kill, "was killed by SIGKILL (often: the machine ran out of memory)"),
        (terminate, "was killed by SIGTERM"),
    ],
)
def test_death_of_one_rank(die, sentence):
    error = failure_of_victim(die)
    assert type(error) is RankError
    assert (error.rank, error.exception, error.place) == (VICTIM, None, None)
    assert str(error).splitlines()[0] == f"rank {VICTIM} {sentence}"


@pytest.mark.parametrize(
    ("crash", "sentence", "source"),
    [
        (read_address_zero, "was killed by SIGSEGV", "ctypes.string_at(0)"),
        (abort, "was killed by SIGABRT", "os.abort()"),
    ],
)
def test_a_crash_is_told_with_the_learners_line(crash, sentence, source):
    error = failure_of_victim(crash)
    assert type(error) is RankError
    assert (error.rank, error.exception, error.place.function) == (VICTIM, None, crash.__name__)
    first, second, *_ = str(error).splitlines()
    assert first == f"rank {VICTIM} {sentence}"
    assert second.startswith("  at ./tests/bench/ranks/test_faults.py:")
    assert second.endswith(source)


def test_a_crash_where_the_file_and_the_function_have_letters_outside_ascii(tmp_path):
    path = tmp_path / "Übung … 🙂.py"
    path.write_text("import os\n\ndef größe():\n    os.abort()\n", encoding="utf-8")
    place = failure(runpy.run_path(str(path))["größe"], world_size=1).place
    assert (place.filename, place.line, place.function) == (str(path), 4, "größe")
    assert place.source() == "os.abort()"


def test_the_crash_of_a_mismatched_call_shows_that_call():
    def reduce_tensors_of_different_sizes():
        dist.all_reduce(torch.ones(3 + 100_000 * dist.get_rank()))

    error = failure(reduce_tensors_of_different_sizes, world_size=2)
    assert type(error) is RankError
    assert "dist.all_reduce(torch.ones(3 + 100_000 *" in error.place.source()
    assert f"\n  at {error.place}\n" in str(error) + "\n"


def test_a_debugger_is_refused_at_its_line():
    def stop_here():
        breakpoint()

    error = failure(stop_here, world_size=2)
    assert isinstance(error.exception, RuntimeError)
    assert "nobody can answer a debugger inside a rank: print() what you want to see" in str(error)
    assert error.place.source().startswith("breakpoint()")


def test_last_words_of_a_dead_rank():
    def speak_and_die():
        print("one\ntwo\nthree\nfour")
        os._exit(3)

    assert "\n  | two\n  | three\n  | four" in str(failure(speak_and_die, world_size=1))


def test_death_of_the_only_rank():
    assert failure(exit_3, world_size=1).rank == 0


def test_errors_share_one_base():
    assert issubclass(RankError, LaunchError)
    assert issubclass(LaunchError, RuntimeError)


# What a rank has started ends with it


def test_a_child_that_a_rank_forks_does_not_speak_for_it():
    def fork_and_wait():
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return "rank" if child else "child"

    assert launch(fork_and_wait, world_size=2).values == ["rank", "rank"]


def test_an_error_in_a_child_is_the_childs():
    def fork_and_wait():
        child = os.fork()
        if child == 0:
            raise ValueError("of the child")
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert launch(fork_and_wait, world_size=1).values == [1]


def start_helper(folder, **options):
    helper = subprocess.Popen(["sleep", "1000"], **options)
    (folder / str(helper.pid)).touch()
    dist.barrier()  # before a rank dies, the others have to be there


def start_helper_and_return(folder):
    start_helper(folder)


def start_helper_in_a_session_of_its_own(folder):
    start_helper(folder, start_new_session=True)


def start_helper_and_raise(folder):
    start_helper(folder)
    raise ValueError("boom")


def start_helper_and_die(folder):
    start_helper(folder)
    os.kill(os.getpid(), signal.SIGKILL)


def start_helper_and_hang(folder):
    start_helper(folder, start_new_session=True)
    while True:
        time.sleep(1)


@pytest.mark.parametrize(
    "step",
    [
        start_helper_and_return,
        start_helper_in_a_session_of_its_own,
        start_helper_and_raise,
        start_helper_and_die,
        start_helper_and_hang,
    ],
)
def test_what_a_rank_started_ends_with_it(step, tmp_path):
    with contextlib.suppress(LaunchError):
        launch(step, tmp_path, world_size=2, timeout=2)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    assert wait_until(lambda: not alive(pids))
