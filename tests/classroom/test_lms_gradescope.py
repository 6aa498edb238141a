"""Gradescope's autograder: what is in the zip, what it reports, and what it does when it breaks."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import needs
import pytest
from answer_files import solution_of
from exercise_names import EX

from classroom.handout.answer_search import search
from classroom.handout.false_positives import find_unreviewed_leaks
from classroom.lms import gradescope, gradescope_container, judge_server
from classroom.lms.__main__ import main
from coursekit.building import build
from coursekit.check_runner import find_exercise

STRANGER = 60123
TOO_FEW = "def sent_bytes(name, n, X):\n    return (n - 1) * X / n\n"
FORGER = """\
import json, pedagogy_lib, atexit, os

FORGED = json.dumps({"score": 100, "tests": [{"score": 1, "max_score": 1}]})
pedagogy_lib.check = lambda *about: True
print(FORGED)

def sent_bytes(name, n, X):
    for path in ("/autograder/results/results.json", "results.json"):
        try:
            open(path, "w").write(FORGED)
        except OSError:
            pass
    print(FORGED)
    return 0
"""
# Says which of the files that are named to it can be read.
READ = 'while read -r path; do if [ -r "$path" ]; then echo "$path"; fi; done'


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gradescope")
    assert main(["gradescope", "--exercises", EX.sent_bytes, "--into", str(folder)]) == 0
    return folder / f"autograder-{EX.sent_bytes}.zip"


@pytest.fixture
def autograder(archive, tmp_path):
    """Gradescope's folder after its setup, with this Python in the place of what that downloads."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o711)
        yield set_up(archive, Path(place, "autograder"), tmp_path / "stand-ins")


def set_up(archive, folder, stand_ins) -> Path:
    with zipfile.ZipFile(archive) as found:
        for one in found.infolist():
            path = found.extract(one, folder / "source")
            os.chmod(path, one.external_attr >> 16)
    stand_in = f'#!/bin/sh\\nexec "{sys.executable}" "$@"\\n'
    python = f"mkdir -p .venv/bin; printf '{stand_in}'"
    programs = {
        "apt-get": "exit 0",
        "python3": f"[ $1 = tools/setup.py ] && {python} >.venv/bin/python\nchmod +x .venv/bin/*",
    }
    stand_ins.mkdir()
    for name, text in programs.items():
        (stand_ins / name).write_text(f"#!/bin/sh\n{text}\n")
        (stand_ins / name).chmod(0o755)
    around = os.environ | {"PATH": f"{stand_ins}:{os.environ['PATH']}"}
    subprocess.run([folder / "source" / "setup.sh"], env=around, check=True)
    return folder


def submit(folder, program):
    """Put a submission where Gradescope puts it. `folder` is /autograder."""
    for name in ("submission", "results"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    text = build.dump(build.make_notebook(program, "02d_bytes_of_all"))
    (folder / "submission" / "02d_bytes_of_all.ipynb").write_text(text)


def run(folder) -> dict:
    """What Gradescope shows of it."""
    program = folder / "source" / "run_autograder"
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([program, folder], env=around, check=True)
    return json.loads((folder / "results" / "results.json").read_text())


def test_the_zip_has_two_programs_at_its_top_and_the_same_bytes_each_time(archive, tmp_path):
    with zipfile.ZipFile(archive) as found:
        modes = {one.filename: one.external_attr >> 16 & 0o777 for one in found.infolist()}
        asked = json.loads(found.read("asked.json"))
    assert {name: mode for name, mode in modes.items() if "/" not in name} == {
        "setup.sh": 0o755, "run_autograder": 0o755, "asked.json": 0o644,
    }  # fmt: skip
    assert {"course/chapters/ch02_collectives/02d_bytes_of_all.py", "course/tools/setup.py",
            "course/classroom/sandbox/supervisor.py",
            "course/labs/collectives.py"} <= modes.keys()  # fmt: skip
    assert not [name for name in modes if "tests/" in name or ".git/" in name]
    title = "Bytes sent by each collective"
    assert asked["exercises"] == [{"number": EX.sent_bytes, "title": title, "points": 1.0}]
    assert main(["gradescope", "--exercises", EX.sent_bytes, "--into", str(tmp_path)]) == 0
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("wishes, said", [
    ([], "say what to grade"),
    (["--exercises", EX.sent_bytes, "--given", "77"], "there is no chapter or part 77"),
    (["--exercises", EX.sent_bytes, "--minutes", EX.global_rank], "0.1 minutes are too few"),
    (["--exercises", EX.sent_bytes, "--minutes", "nan"], "nan minutes are too few"),
])  # fmt: skip
def test_what_no_submission_could_be_judged_by_is_refused(tmp_path, capsys, wishes, said):
    assert main(["gradescope", "--into", str(tmp_path), *wishes]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_each_wish_has_a_zip_of_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gradescope, "course_files", dict)
    wishes_of_teachers = "", f" --given {EX.reduce_scatter_ring}", " --chapters 06"
    for wishes in (f"--exercises {EX.sent_bytes}{more}" for more in wishes_of_teachers):
        assert main(["gradescope", "--into", str(tmp_path), *wishes.split()]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        f"autograder-{EX.sent_bytes}.zip",
        f"autograder-{EX.sent_bytes}-given-{EX.reduce_scatter_ring}.zip",
        f"autograder-06-{EX.sent_bytes}.zip",
    }
    assert capsys.readouterr().out.startswith("1 exercise, ")


@needs.mark("root")
def test_another_user_can_read_no_answer(autograder):
    (autograder / "submission").mkdir()
    (autograder / "submission" / "mine.py").write_text("MINE = 1\n")
    gradescope_container.keep_to_root(autograder)
    files = {str(path) for path in autograder.rglob("*") if path.is_file()}
    assert f"{autograder}/source/course/chapters/ch02_collectives/02d_bytes_of_all.py" in files
    told = subprocess.run(["/bin/sh", "-c", READ], input="\n".join(sorted(files)) + "\n", text=True,
                          stdout=subprocess.PIPE, user=STRANGER, group=STRANGER, extra_groups=[],
                          cwd="/", check=True).stdout.splitlines()  # fmt: skip
    readable = {path.removeprefix(f"{autograder}/source/") for path in told}
    assert readable == {"asked.json", "setup.sh", "run_autograder", "course/.venv/bin/python"}
    contents = {name: (autograder / "source" / name).read_bytes() for name in readable}
    assert find_unreviewed_leaks(search(contents)) == []


# ---- What it says ----


def test_results_are_in_gradescopes_format(capsys):
    asked = {
        "exercises": [
            {"number": n, "title": f"title {n}", "points": 2.0}
            for n in (EX.swap, EX.all_reduce_ring, EX.sent_bytes, EX.all_to_all)
        ]
    }
    told = {"text": "said", "reasons": []}
    found = {
        "problems": ["a.zip is damaged"],
        "answers": {
            EX.swap: told | {"state": "right", "score": 1.0},
            EX.all_reduce_ring: told | {"state": "wrong", "score": 0.6},
            EX.sent_bytes: told | {"state": "look", "score": 0.0, "reasons": ["uses eval"]},
        },
    }
    results = gradescope_container.results_of(asked, found)
    assert results["output"] == "a.zip is damaged"
    assert (results["visibility"], results["stdout_visibility"]) == ("visible", "hidden")
    assert [(t["name"], t["score"], t["max_score"], t["status"], t["output"])
            for t in results["tests"]] == [
        (f"title {EX.swap}", 2.0, 2.0, "passed", "said"),
        (f"title {EX.all_reduce_ring}", 1.2, 2.0, "failed", "said"),
        (f"title {EX.sent_bytes}", 0.0, 2.0, "failed", "said"),
        (f"title {EX.all_to_all}", 0.0, 2.0, "failed", "there was no time left for this exercise"),
    ]  # fmt: skip
    assert (
        capsys.readouterr().out == f"{EX.sent_bytes}: uses eval\n"
    )  # which is hidden from students


def test_what_was_judged_in_time_counts(monkeypatch):
    asked = []

    def record_numbers(submission, student, numbers, out, way, given, tell=None):
        asked.append(numbers)
        for number in numbers:
            if tell:
                tell(number, True)
        return numbers

    monkeypatch.setattr(judge_server, "judge_submission", record_numbers)
    question = {
        "exercises": [{"number": n} for n in (EX.swap, EX.all_reduce_ring)],
        "submission": ".",
        "out": ".",
        "way": None,
        "given": "",
    }
    said = []
    assert (
        judge_server.judge_before_deadline(question | {"seconds": -1.0}, said.append)
        == [EX.swap]
        == said
    )
    assert asked == [[EX.swap, EX.all_reduce_ring], [EX.swap]]
    assert judge_server.judge_before_deadline(question | {"seconds": math.inf}) == [
        EX.swap,
        EX.all_reduce_ring,
    ]


ENDLESS = """\
import json, sys, time
question = json.loads(sys.argv[-1])
numbers = [one["number"] for one in question["exercises"]]
for number in numbers[:2]:
    print(json.dumps(number), flush=True)
if len(numbers) > 2:
    print('{"answers', end="", flush=True)  # torn
    HOW_IT_ENDS
print(json.dumps({"problems": [], "answers": dict.fromkeys(numbers, question["out"])}))
"""


@pytest.mark.parametrize("how, said", [
    ("time.sleep(60)", "took more than 3 s"), ("sys.exit(9)", "ended with 9"),
])  # fmt: skip
def test_what_was_judged_counts_if_it_is_killed(tmp_path, monkeypatch, capsys, how, said):
    program = tmp_path / "python"
    text = ENDLESS.replace("HOW_IT_ENDS", how)
    (tmp_path / "judging.py").write_text(text)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/judging.py" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(gradescope_container.sys, "executable", str(program))
    asked = {"exercises": [{"number": n} for n in (EX.swap, EX.all_reduce_ring, EX.sent_bytes)],
             "minutes": (gradescope_container.LEFT_SECONDS + 3) / 60}  # fmt: skip
    found = gradescope_container.judge_in_process(tmp_path, asked, None)
    assert found["answers"].keys() == {EX.swap, EX.all_reduce_ring}
    assert said in capsys.readouterr().out
    none = {"exercises": [], "minutes": asked["minutes"]}
    program.write_text("#!/bin/sh\nexit 4\n")
    assert gradescope_container.judge_in_process(tmp_path, none, None) == {
        "error": "the judging ended with 4"
    }  # fmt: skip


@pytest.mark.deep
def test_a_broken_autograder_says_so(autograder):
    course = autograder / "source" / "course"
    (course / "coursekit" / "check_runner.py").write_text("1 / 0\n")
    submit(autograder, TOO_FEW)
    results = run(autograder)
    assert results["output"] == gradescope_container.BROKEN and results["score"] == 0
    shutil.rmtree(course / "classroom")
    assert run(autograder)["output"].startswith("The autograder is broken. That is not your fault")


def test_without_walls_nothing_runs(autograder, capfd):
    submit(autograder, "x = 1\n")
    gradescope_container.main(autograder, way="none of these")
    results = json.loads((autograder / "results" / "results.json").read_text())
    assert results["output"] == gradescope_container.BROKEN and results["tests"] == []
    assert "there is no way 'none of these' to run students' code" in capfd.readouterr().out


# ---- It runs ----

SCORES = {"right": 1.0, "too few": 0.6, "missing": 0.0, "forger": 0.0}


def programs() -> dict[str, str]:
    return {
        "right": solution_of(find_exercise(EX.sent_bytes)),
        "too few": TOO_FEW,
        "missing": "x = 1\n",
        "forger": FORGER,
    }


@pytest.mark.deep
@needs.mark("walls")
def test_four_submissions_are_scored_as_they_deserve(autograder):
    tests = {}
    for who, program in programs().items():
        submit(autograder, program)
        tests[who] = run(autograder)["tests"]
    assert {who: [one["score"] for one in t] for who, t in tests.items()} == {
        who: [score] for who, score in SCORES.items()
    }
    assert "half of it: an all-reduce is a reduce-scatter" in tests["too few"][0]["output"]
    assert "there is no function sent_bytes" in tests["missing"][0]["output"]


@pytest.mark.deep
@needs.mark("root, and a Python open to all")
def test_as_another_user_they_get_the_same(autograder):
    for who, program in programs().items():
        submit(autograder, program)
        command = [
            ".venv/bin/python",
            "-m",
            "classroom.lms.gradescope_container",
            autograder,
            "other user",
        ]
        subprocess.run(command, cwd=autograder / "source" / "course", check=True)
        results = json.loads((autograder / "results" / "results.json").read_text())
        assert [one["score"] for one in results["tests"]] == [SCORES[who]]
