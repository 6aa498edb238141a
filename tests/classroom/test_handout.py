"""A handout of chapter 02: what is in it, that it works, and that its bytes are the same."""

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from functools import cache

import pytest
from answer_files import all_answers
from each import repeat_for_each
from exercise_names import EX
from handouts import copy_with_original_checks, files_of, handout_in, run_checks, run_in_course

from classroom.handout.archive import folder_of, zip_handout
from classroom.handout.contents import contents_of
from classroom.handout.files import handout_files
from classroom.handout.readme import readme_of
from coursekit.building import build
from coursekit.chapters import exercise_folders
from coursekit.kit import packed_checks
from pedagogy_lib.basics.errors import WrongInput

NOT_IN_IT = re.compile(
    r"(^|/)(solutions|tests|classroom|benchmarks|\.git|__pycache__)(/|$)"
    r"|^chapters/(course\.toml|\w+/(labs/|\d|exercises/(\w+/)?answers\.py))"
)
LINK = re.compile(r"\]\(([^()\s]+)\)")
DEFINED = re.compile(r"^\[\w+\]: (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The handout as it comes."""
    return handout_in(tmp_path_factory.mktemp("02") / "course", "02", solved=False)


@pytest.mark.deep
def test_two_builds_give_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "classroom.handout", "02", "--into", str(tmp_path)]
    around = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(build.ROOT)}
    subprocess.run(command, check=True, capture_output=True, env=around, cwd=build.ROOT)
    (archive,) = tmp_path.glob("*.zip")
    files = files_of("02")
    assert archive.name == f"{folder_of(files)}.zip"
    assert archive.read_bytes() == zip_handout(files)
    with zipfile.ZipFile(archive) as opened:
        names = {name.partition("/")[2] for name in opened.namelist()}
    folder = tmp_path / archive.stem
    assert names == {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_handout_has_the_parts_and_labs_of_its_chapter_and_no_solution():
    files = files_of("02")
    assert [name for name in files if NOT_IN_IT.search(name)] == []
    assert {name for name in files if name.startswith("notebooks/")} == {
        f"notebooks/{path.stem}.ipynb" for path in build.sources() if path.stem.startswith("02")
    }
    labs = {name for name in files if re.fullmatch(r"labs/\w+\.py", name)}
    assert {"labs/collectives.py", "labs/halving_doubling.py"} <= labs
    assert "labs/zero.py" not in labs
    assert "tools/setup.py" in files
    for name in files:
        if name.startswith(("labs/", "notebooks/")):
            assert build.BEGIN.encode() not in files[name], name


def test_labs_come_with_all_that_they_import_and_with_their_exercises():
    contents = contents_of(["06"])
    assert {"zero", "simple_ddp", "collectives"} <= set(contents.labs)
    names = [exercise_folders()[number].name for number in contents.exercises]
    assert "all_reduce_ring" in names  # labs of chapter 06 call it
    assert "sent_bytes" not in names
    with pytest.raises(WrongInput, match="no chapter or part 77; chapters are: 00 01 02"):
        contents_of(["77"])


@pytest.mark.deep
def test_a_handout_of_parts_has_no_later_part_and_none_of_its_labs():
    contents = contents_of(["02a", "2b"])
    assert contents.parts == ("02_collectives", "02b_trees_and_chains")
    of_02 = {EX.swap, EX.sum_meanwhile, EX.sum_in_flight}
    assert contents.own == of_02 | {EX.tree_seconds, EX.broadcast_tree, EX.reduce_tree}
    assert set(contents.labs) == {"collectives", "collectives_called", "collectives_shown"}
    assert not contents.is_whole
    about = json.loads(files_of("02a", "02b")["HANDOUT.json"])
    assert about["name"] == "distributed-training-02a-02b"
    readme = files_of("02a", "02b")["README.md"].decode()
    assert "\nParts 02 and 02b.\n" in readme
    assert "Labs have holes of other parts, too: these can wait." in readme
    assert "Before the exercises of these parts" not in readme
    every = [part for chapter in ("02", "6") for part in contents_of([chapter]).parts]
    assert list(contents_of(["02", "06"]).parts) == every
    assert contents_of(["02"]).names == ("02",)


def test_a_handout_says_what_has_to_be_written_first():
    contents = contents_of(["06a", "06b", "06c"])
    first = (EX.reduce_scatter_ring, EX.all_gather_ring, EX.start_equal)
    assert contents.first == first
    readme = readme_of(contents, [*first, EX.bytes_of_rank])
    said = "Before the exercises of these parts, write {}, {} and {}:".format(*first)
    assert said in readme
    assert contents_of(["02"]).first == ()


@pytest.mark.parametrize("chapter", ["00", "02"])
def test_no_link_leads_to_what_is_not_there(chapter):
    files = files_of(chapter)
    texts = {"README.md": files["README.md"].decode()}
    for name in files:
        if name.endswith(".ipynb"):
            cells = json.loads(files[name])["cells"]
            texts[name] = "\n".join(
                "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
            )
    for name, text in texts.items():
        assert "solutions/" not in text
        assert not re.search(r"(our|the|its own) solution\b|\bours\b", text), name
        for target in LINK.findall(text) + DEFINED.findall(text):
            if ":" not in target and not target.startswith("#"):
                path = os.path.normpath(os.path.join(os.path.dirname(name), target.split("#")[0]))
                assert path in files, (name, target)


def test_a_version_changes_with_the_contents(monkeypatch):
    before = json.loads(files_of("02")["HANDOUT.json"])
    monkeypatch.setattr("classroom.handout.files.MAKEFILE", "help:\n")
    after = json.loads(handout_files(["02"])["HANDOUT.json"])
    assert before["name"] == after["name"] == "distributed-training-02"
    assert before["version"] != after["version"]


ASKED = f"""
from pedagogy_lib import check, lab
collectives = lab("collectives")
def right(name, n, X):
    return (2 if name == "all_reduce" else 1) * (n - 1) / n * X
print(check("{EX.sent_bytes}", right))
print(check("{EX.sent_bytes}", lambda name, n, X: 2 * X))
print(check("{EX.all_reduce_ring}"))
try:
    collectives.all_reduce_ring(None)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_checks_work_there_and_labs_say_what_is_unsolved(course):
    done = run_in_course(course, "-c", ASKED)
    assert done.returncode == 0, done.stderr
    assert "labs/collectives.py, all 7 functions: unwritten" in done.stdout
    assert done.stdout.count("\npassed\n") == 1
    assert "→ one step too many in each half: a ring of n ranks has n - 1 steps." in done.stdout
    assert f"Exercise {EX.all_reduce_ring} · all_reduce_ring: not attempted yet" in done.stdout
    assert f"NotSolvedYet exercise {EX.all_reduce_ring} comes first" in done.stdout


@pytest.mark.deep
@pytest.mark.parametrize("number", [EX.tree_seconds, EX.card_bytes])
def test_answers_are_told_what_the_original_checks_tell(number, course):
    answers = [answer for answer in all_answers() if answer.exercise.number == number]
    original = copy_with_original_checks(course, course.parent / f"original-{number}")
    compiled = run_checks(course, answers)
    assert compiled == run_checks(original, answers)
    assert sum(text.endswith("passed") for text in compiled) >= 2


@pytest.mark.deep
def test_each_lab_can_be_read_before_anything_is_solved(tmp_path):
    folder = handout_in(tmp_path / "handout", solved=False)
    labs = [path.stem for path in sorted((folder / "labs").glob("*.py"))]
    program = f"from pedagogy_lib import lab\nfor name in {labs}: lab(name)"
    done = run_in_course(folder, "-c", program)
    assert done.returncode == 0, done.stderr
    assert "cannot be read" not in done.stdout + done.stderr


@repeat_for_each("source", build.sources())
@pytest.mark.deep
def test_each_part_names_its_labs_so_that_they_are_found(source):
    """`lab("collectives")`: a handout has the labs that a part calls by a name of its own."""
    nodes = list(ast.walk(ast.parse(build.text_of(source))))
    calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "lab"]
    assert len(calls) == sum(isinstance(n, ast.Name) and n.id == "lab" for n in nodes)
    assert {ast.literal_eval(call.args[0]) for call in calls} <= set(labs_of(source.stem[:2]))


@cache
def labs_of(chapter):
    return contents_of([chapter]).labs


@pytest.mark.deep
def test_the_code_of_checks_is_packed_and_does_the_same(tmp_path):
    folder = handout_in(tmp_path / "handout", "05")
    module = folder / "chapters" / "ch05_memory" / "exercises" / "loss_scaler" / "check.py"
    assert "class" not in module.read_text().split('"""', 2)[2].replace("globals", "")
    original = (build.ROOT / module.relative_to(folder)).read_text()
    assert packed_checks.unpack_check(packed_checks.pack_check(original)) == original
    truth = module.with_name("truth.py").read_text()
    assert "class Torch" not in truth
    assert "class Torch" in packed_checks.unpack_check(truth)
    first = [
        next(a for a in all_answers() if a.exercise.number == EX.loss_scaler and a.kind == kind)
        for kind in ("right", "wrong")
    ]
    right, wrong = run_checks(folder, first)
    assert right.endswith("passed")
    assert first[1].words in " ".join(wrong.split())
