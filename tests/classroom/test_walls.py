"""The walls of a sandbox, each way that works here: what is inside, and what stays outside."""

import ast
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import needs
import psutil
import pytest
from helpers import ROOT
from walls_here import USABLE, SandboxProbe

from classroom.sandbox.backends import WALLS, choose_backend, reason_against, ways
from classroom.sandbox.course import prepare_course
from classroom.sandbox.limits import Limits
from classroom.sandbox.refusals import Refusal
from coursekit.chapters import exercise_folders
from coursekit.check_runner import find_exercise
from coursekit.kit import RankExercise
from pedagogy_lib.ranks.fork_server_client import ENVIRON

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are Linux's")
WAYS = [pytest.param(way, marks=needs.mark("walls")) for way in USABLE or ["none"]]


@pytest.fixture(scope="module", params=WAYS)
def probe(request):
    with SandboxProbe(request.param) as sandbox:
        yield sandbox


@needs.mark("walls")
def test_the_best_wall_is_chosen():
    assert USABLE[0] == choose_backend().NAME
    assert list(ways()) == ["bubblewrap", "landlock", "other user", "trust"]


def test_it_sees_the_course_and_the_students_files(probe):
    course = ast.literal_eval(probe.ask("sorted(os.listdir(sys.argv[0][:-16] + 'course'))"))
    assert course == ["cells", "chapters", "coursekit", "labs", "pedagogy_lib"]
    assert probe.ask("open(sys.argv[0][:-16] + 'course/labs/mine.py').read()") == r"'MINE = 1\n'"
    assert probe.ask("sys.argv[0][-17:]") == "'/driver/driver.py'"


def test_no_answer_is_inside(probe):
    folders = "os.walk(sys.argv[0][:-16] + 'course')"
    assert probe.ask(f"[f for f, *_ in {folders} if 'solution' in f]") == "[]"
    assert probe.ask(f"os.path.exists({str(ROOT / 'solutions')!r})") == "False"
    assert probe.ask(f"os.path.exists({__file__!r})") == "False"


def test_nothing_can_be_written_but_memory(probe):
    places = ["/", "/dev", "/etc", "/usr", "/sandbox", "/sandbox/course", "/sandbox/driver",
              "/sandbox/course/cells", "/tmp", "/dev/shm"]  # fmt: skip
    found = probe.ask(f"[p for p in {places} + [sys.prefix] if os.access(p, os.W_OK)]")
    assert ast.literal_eval(found) == ["/sandbox/course/cells", "/tmp", "/dev/shm"]
    size = "(lambda s: s.f_blocks * s.f_frsize)(os.statvfs('{}'))"
    for place in ("/tmp", "/dev/shm"):
        assert int(probe.ask(size.format(place))) == Limits().disk_bytes


def test_it_has_five_open_files_and_no_variable_of_the_teachers(probe):
    assert probe.ask("len(os.listdir('/proc/self/fd')) - 1") == "5"  # and the one that reads them
    variables = ast.literal_eval(probe.ask("sorted(os.environ)"))
    ours = {"HOME", "LANG", "MPLBACKEND", "OMP_WAIT_POLICY", "PATH", *ENVIRON}
    assert set(variables) - ours - {"PWD"} == {
        "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "TMPDIR", "USER"
    }  # fmt: skip


def test_it_has_no_rights(probe):
    status = probe.ask("open('/proc/self/status').read()")
    assert r"CapPrm:\t0000000000000000" in status
    assert r"CapEff:\t0000000000000000" in status
    assert r"CapAmb:\t0000000000000000" in status
    assert r"NoNewPrivs:\t1" in status
    assert probe.ask("os.getgroups()") in ("[]", "[65534]", "[1000]")


def test_it_sees_its_own_processes_alone(probe):
    pids = ast.literal_eval(probe.ask("[int(p) for p in os.listdir('/proc') if p.isdigit()]"))
    assert pids == [1, 2]


def test_it_has_limits(probe):
    for name, most in Limits().build_rlimits().items():
        assert probe.ask(f"__import__('resource').getrlimit({int(name)})") == f"({most}, {most})"


def test_its_loopback_is_its_own(probe):
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"__import__('socket').create_connection({server.getsockname()!r}, 2)"
        assert probe.ask(call).startswith("ConnectionRefusedError")
    serve = "globals().setdefault('own', __import__('socket').create_server(('127.0.0.1', 0)))"
    assert probe.ask(serve).startswith("<socket.socket")
    call = "__import__('socket').create_connection(own.getsockname(), 2)"
    assert probe.ask(call).startswith("<socket.socket")
    far = probe.ask("__import__('socket').create_connection(('1.1.1.1', 53), 2)")
    assert far == "OSError: [Errno 101] Network is unreachable"


def test_a_namespace_within_can_be_made(probe):
    """As the exercises on machines with networks of their own do."""
    made = "__import__('subprocess').run(['unshare', '-Urn', 'true']).returncode"
    assert probe.ask(made) == "0"


@pytest.mark.parametrize("way", WAYS)
def test_its_end_is_the_end_of_all_its_processes(way):
    with SandboxProbe(way) as sandbox:
        sleep = "['setsid', '-f', 'sleep', '98765']"
        assert sandbox.ask(f"__import__('subprocess').run({sleep}).returncode") == "0"
        wait_for(lambda: sleepers("98765"))
    assert not sleepers("98765")
    assert not sandbox.folder.exists()


def sleepers(seconds) -> list[int]:
    found = psutil.process_iter(["cmdline"])
    return [one.pid for one in found if one.info["cmdline"] == ["sleep", seconds]]


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.deep
@pytest.mark.parametrize("way", WAYS)
def test_it_ends_when_its_grader_is_killed(way):
    left = Path(tempfile.mkdtemp())  # its folders stay: nobody is there to remove them
    left.chmod(0o711)
    program = f"""
        import sys
        sys.path[:0] = {[str(ROOT / "tests" / "support"), str(ROOT)]!r}
        from walls_here import SandboxProbe
        with SandboxProbe({way!r}) as sandbox:
            print(sandbox.ask("__import__('subprocess').Popen(['sleep', '87654'])"), flush=True)
            sys.stdin.read()
    """
    grader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(left)},
    )  # fmt: skip
    assert "Popen" in grader.stdout.readline()
    assert sleepers("87654")
    grader.send_signal(signal.SIGKILL)
    grader.wait()
    wait_for(lambda: not sleepers("87654"))
    grader.stdin.close()
    grader.stdout.close()
    shutil.rmtree(left)


@pytest.mark.parametrize("way", WAYS)
def test_too_much_memory_ends_it(way):
    with SandboxProbe(way, Limits(memory_bytes=200 * 2**20)) as sandbox:
        assert sandbox.ask("len(b'x' * 300_000_000)").startswith("MemoryError")
        holding = "import time; held = b'x' * 120_000_000; time.sleep(60)"
        start = f"__import__('subprocess').Popen([sys.executable, '-c', {holding!r}])"
        assert sandbox.ask(f"len([{start} for _ in range(2)])") == "2"
        wait_for(lambda: sandbox.fault)
        wait_for(lambda: sandbox.process.poll() is not None)
        assert sandbox.fault == "it took more memory than the 200 MB that it may have"


@needs.mark("walls")
def test_what_it_prints_is_kept_up_to_a_limit():
    with SandboxProbe(USABLE[0], Limits(printed_bytes=1000)) as sandbox:
        assert sandbox.ask("os.write(1, b'x' * 60_000) + os.write(2, b'y')") == "60001"
        printed = ""
        wait_for(lambda: "59,001 bytes more" in sandbox.peek_output())
        printed = sandbox.read_output()
        assert printed == "x" * 1000 + "\n… and 59,001 bytes more, which are not kept"
        assert sandbox.ask("os.write(1, b'later')") == "5"
        wait_for(lambda: sandbox.peek_output())
        assert sandbox.read_output() == "later"


def test_the_course_is_prepared_once_and_holds_no_answer(tmp_path):
    first = prepare_course(tmp_path)
    assert prepare_course(tmp_path) == first
    files = {path.relative_to(first).as_posix() for path in first.rglob("*.py")}
    assert "labs/collectives.py" in files
    assert "coursekit/kit/formula.py" in files
    tables = [json.loads(path.read_text()) for path in first.rglob("exercises/**/*.json")]
    beside = {name for one in tables for name in one.get("named", ()) if one["outcomes"]}
    assert beside == {"all_places", "lists_along", "zigzag_layout", "one_f_one_b"}
    assert not [one for one in tables if {"truth", "mistakes"} & one.keys()]
    judging = re.compile(r"/(check|truth|answers|\w+_truth)\.py$")
    assert not [name for name in files if name.startswith("chapters/") and judging.search(name)]
    assert sum(name.endswith("/cases.py") for name in files) > 90
    assert {path.name for path in first.iterdir()} == {
        "chapters",
        "coursekit",
        "labs",
        "pedagogy_lib",
    }
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_a_course_for_one_exercise_has_no_other_of_them(tmp_path):
    folders = exercise_folders()
    on_ranks = [number for number in folders if isinstance(find_exercise(number), RankExercise)]
    number, other = [one for one in on_ranks if (folders[one] / "cases.py").exists()][:2]
    first = prepare_course(tmp_path, [number])
    assert prepare_course(tmp_path, [number]) == first != prepare_course(tmp_path, [other])
    assert {path.parent.name for path in first.rglob("cases.py")} == {folders[number].name}


@pytest.mark.parametrize(
    "name",
    ["../README.md", "/etc/passwd", "labs/../../x", "", ".", "pedagogy_lib/__init__.py",
     "coursekit/__init__.py",
     "labs\\x.py", "labs/x\0.py"],
)  # fmt: skip
def test_a_file_that_leads_out_is_refused(name):
    with pytest.raises(Refusal, match="has no place in labs/"):
        SandboxProbe("trust", files={name: b"x"})


def test_a_submission_is_not_large():
    with pytest.raises(Refusal, match="1001 files with 0 MB; the most"):
        SandboxProbe("trust", files={f"labs/x{place}.py": b"" for place in range(1001)})


def test_where_there_is_no_wall_it_says_what_to_install(monkeypatch):
    reason_against.cache_clear()
    for way in WALLS:
        monkeypatch.setattr(way, "why_not", lambda: "it is not there: install it")
    try:
        with pytest.raises(Refusal) as refusal:
            choose_backend()
    finally:
        reason_against.cache_clear()
    assert "bubblewrap: it is not there: install it; landlock:" in refusal.value.message
    assert "--trust" in refusal.value.message
    with pytest.raises(Refusal, match="no way 'walls' to run"):
        choose_backend("walls")


def test_a_way_whose_trial_does_not_end_is_none(monkeypatch):
    reason_against.cache_clear()
    monkeypatch.setattr(WALLS[0], "why_not", lambda: subprocess.run(["sleep", "9"], timeout=0.01))
    assert reason_against(WALLS[0]).startswith("trying it has failed: Command '['sleep', '9']'")
    reason_against.cache_clear()


def test_bubblewrap_that_is_not_installed_is_told(monkeypatch):
    from classroom.sandbox import bubblewrap

    monkeypatch.setenv("PATH", os.devnull)
    assert bubblewrap.why_not() == (
        "it is not installed: install bubblewrap 0.7 or newer (`sudo apt install bubblewrap`)"
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "landlockpy is not installed: `pip install landlockpy=="),
        (SimpleNamespace(supported=lambda: False), "this kernel has no Landlock"),
        (SimpleNamespace(supported=lambda: True), "there is no `unshare`: install util-linux"),
    ],
)
def test_what_landlock_lacks_is_told(found, told, monkeypatch):
    from classroom.sandbox import landlock

    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setitem(sys.modules, "landlockpy", found)
    assert landlock.why_not().startswith(told)
