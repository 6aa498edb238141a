"""What learners open is what the sources say."""

import ast
import re
import subprocess
import sys
from functools import cache
from operator import attrgetter

import nbformat
import pytest
from each import repeat_for_each
from exercise_names import EX

from coursekit.building import build, record_inputs
from coursekit.building.written_files import WRITTEN
from pedagogy_lib.basics.errors import WrongInput

SOURCE = """# %% [markdown]
# Add.

# %%
def add(a, b):
    ### BEGIN SOLUTION
    total = a + b
    return total
    ### END SOLUTION


# %% tags=["parameters"]
print(add(1, 2))
"""

built = cache(build.build_texts)
FOLDED = {"jupyter": {"source_hidden": True}}
TO_READ = {  # what stands for it when words are counted
    r"```.*?```|\$\$.*?\$\$|<[^>]*>": "",
    r"^[ \t]*[|#].*?$": "",
    r"^\[\w+\]:\s\S+$": "",  # where a link leads
    r"`[^`]*`|\$[^$]*\$": "x",
    r"\]\([^)]*\)": "]",
}
# A cell that asks for a prediction, or tells what is done, a part's cover and its end: they are no
# more to read. Nor is a prediction's comparison, which is folded.
NEXT = re.compile(r"\*\*Next\*\*: \[.*?\]\(.*?\)")  # its title is not this part's text
ASIDE = re.compile(r"\w+ = predict\([^\n]*(\n +[^\n]*)*\s*$|progress\(|!\[|## What you have learnt")


@repeat_for_each("path, text", lambda: built().items(), lambda pair: pair[0].name)
def test_built_files_are_current(path, text):
    assert path.read_text() == text, "run `make build`"


def test_executed_records_are_current():
    old = [source.stem for source in build.sources() if not build.record_is_current(source)]
    assert old == [], "run `make build`"


@repeat_for_each("source", build.sources(), attrgetter("stem"))
def test_learners_get_no_outputs_and_no_answers(source):
    path = build.ROOT / "notebooks" / f"{source.stem}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert "SOLUTION" not in path.read_text()


def test_lines_are_short_once_exercises_have_their_numbers():
    texts = {source: build.text_of(source) for source in [*build.sources(), *build.lab_sources()]}
    long = {source.stem: line for source, text in texts.items() for line in text.splitlines()
            if len(line.split("  # noqa")[0]) > 100 and "://" not in line}  # fmt: skip
    assert long == {}


@repeat_for_each("source", build.sources(), attrgetter("stem"))
def test_chapters_keep_to_the_house_size(source):
    cells = build.make_notebook(build.text_of(source), source.stem).cells
    long = [cell for cell in cells if not (ASIDE.match(cell.source) or ".compare(" in cell.source)]
    assert len(long) <= 60, f"{source.stem} has {len(long)} cells: split it into two parts"
    for cell in cells:
        if cell.cell_type == "code":
            lines = sum(bool(line.strip()) for line in cell.source.splitlines())
            assert lines <= 25, f"{lines} lines of code, at most 25:\n{cell.source}"
        if cell.cell_type == "markdown":
            words = words_in(NEXT.sub("", cell.source))
            assert words <= 120, f"{words} words, at most 120:\n{cell.source}"
    code = [cell for cell in cells if cell.cell_type == "code"]
    tags = [cell.metadata.get("tags", []) for cell in code]
    number = next(i for i, cell_tags in enumerate(tags) if "parameters" in cell_tags)
    assert number <= 2 and FOLDED.items() <= code[number - 1].metadata.items()


@repeat_for_each("source", build.sources(), attrgetter("stem"))
def test_a_prediction_is_asked_for_before_anything_reveals_it(source):
    """In a cell of its own. What is expected in theory stands in a folded cell."""
    cells = build.make_notebook(build.text_of(source), source.stem).cells
    code = [(cell, ast.parse(cell.source)) for cell in cells if cell.cell_type == "code"]
    asked = {}
    for cell, tree in code:
        for name, call in calls_of(tree, "compare"):
            assert FOLDED.items() <= cell.metadata.items(), f"fold this cell:\n{cell.source}"
            assert cell.source.startswith("# "), "the first line of a folded cell can be read"
            theory = call.args[0] if call.args else call.keywords[0].value
            given = collect_assigned_names(*(between for _, between in asked.pop(name)))
            assert not names_in(theory) & given, f"this cell's theory stands above:\n{cell.source}"
        if "= predict(" in cell.source:
            assert len(tree.body) == 1, f"more than a prediction:\n{cell.source}"
            asked[tree.body[0].targets[0].id] = []
        elif not FOLDED.items() <= cell.metadata.items():
            for seen in asked.values():
                seen.append((cell, tree))
    assert not asked, "a prediction is never compared"


def calls_of(tree, method) -> list[tuple[str, ast.Call]]:
    """`name.method(…)` in the code, as (name, call)."""
    calls = [node for node in ast.walk(tree)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]  # fmt: skip
    return [(call.func.value.id, call) for call in calls if call.func.attr == method]


def names_in(tree) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def collect_assigned_names(*trees) -> set[str]:
    """Names that cells assign, but for those inside of their functions."""
    lines = [line for tree in trees for line in tree.body]
    outside = [line for line in lines if not isinstance(line, ast.FunctionDef | ast.ClassDef)]
    nodes = [node for line in outside for node in ast.walk(line)]
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def words_in(prose) -> int:
    """As a reader counts them: a formula or name is one word; tables and headings are looked at."""
    for pattern, instead in TO_READ.items():
        prose = re.sub(pattern, instead, prose, flags=re.DOTALL | re.MULTILINE)
    return len(re.findall(r"[^\W_][\w’'.,-]*", prose))


def test_words_are_counted_as_a_reader_does():
    assert words_in("# A title\n\nTake $\\frac{p-1}{m}$ of `a_b` from [here](x.ipynb).") == 6
    assert words_in("| a | table |\n|---|---|\n\nIt's *done*:\n\n$$a = b$$\n```\ncode\n```") == 2


@pytest.mark.deep
def test_two_builds_are_the_same_bytes():
    again = "from coursekit.building import build; print(build.build_texts())"
    run = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(built())


def test_a_bug_takes_the_place_of_its_repair():
    text = (
        "def f(x):\n    ### BEGIN SOLUTION\n    return 2 * x  # right\n    ### IT WAS\n"
        "    # if x:\n    #     return x  # bug\n    ### END SOLUTION\nprint(f(1))\n"
    )
    assert build.insert_holes(text) == (
        "def f(x):\n    if x:\n        return x  # bug\nprint(f(1))\n"
    )
    assert build.keep_answers(text) == (
        "def f(x):\n    return 2 * x  # right\n    # It was:\n    # if x:\n"
        "    #     return x  # bug\nprint(f(1))\n"
    )


def test_a_hole_takes_the_place_of_an_answer():
    text = build.insert_holes(SOURCE)
    assert "def add(a, b):\n    ...  # your code here\n" in text
    assert "total" not in text


def test_the_solved_version_keeps_the_answer_without_its_marks():
    text = build.keep_answers(SOURCE)
    assert "    total = a + b\n    return total\n" in text
    assert "SOLUTION" not in text


def test_an_answer_without_an_end_is_refused(tmp_path):
    source = tmp_path / "add.py"
    source.write_text(SOURCE.replace("    ### END SOLUTION\n", ""))
    with pytest.raises(WrongInput, match=r"add\.py: each `### BEGIN SOLUTION` needs its `### END"):
        build.text_of(source)


HEADER = "# Built from chapters/ch00_add/labs/add.py by `make build`."
LAB_OF_ONE = "### BEGIN SOLUTION\n1\n### END SOLUTION\n"
YOURS = f"{HEADER} Write your answers here.\n"


def source_in(folder, monkeypatch):
    """The source of a course's one part."""
    monkeypatch.setattr(build, "ROOT", folder)
    source = folder / "chapters" / "ch00_add" / "00_add.py"
    for needed in (source.parent, folder / "solutions"):
        needed.mkdir(parents=True)
    source.write_text(SOURCE)
    return source


def test_a_changed_tag_counts_as_well(tmp_path, monkeypatch):
    source = source_in(tmp_path, monkeypatch)
    record = build.record_of(source)
    record.write_text(build.dump(build.make_solved_notebook(source)))
    source.write_text(SOURCE.replace('"parameters"', '"nbval-ignore-output"'))
    assert not build.record_is_current(source)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one lab and no chapter, under git."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    source = tmp_path / "chapters" / "ch00_add" / "labs" / "add.py"
    source.parent.mkdir(parents=True)
    source.write_text("# first\n### BEGIN SOLUTION\n1\n### END SOLUTION\n")
    build.build()
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    commit()
    return source


def commit(*options):
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", *who, "commit", "-qm", "x", *options], cwd=build.ROOT, check=True)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_lab_that_was_worked_in_is_kept(course, remembers, capsys):
    built = build.ROOT / "labs" / "add.py"
    for number in (1, 2):
        built.write_text(f"my answer {number}\n")
        if not remembers:
            (build.ROOT / WRITTEN).unlink()
        build.build()
        kept = build.ROOT / "labs" / f"add.mine-{number}.txt"
        assert kept.read_text() == f"my answer {number}\n"
        assert built.read_text() == f"{YOURS}# first\n...  # your code here\n"
        said = f"labs/add.py has been worked in; it is now labs/add.mine-{number}.txt"
        assert said in capsys.readouterr().out


@pytest.mark.parametrize("remembers", [True, False])
def test_a_lab_that_nobody_has_touched_is_simply_built_anew(course, remembers):
    if not remembers:
        (build.ROOT / WRITTEN).unlink()
    course.write_text(course.read_text().replace("first", "second"))
    build.build()
    assert [path.name for path in (build.ROOT / "labs").iterdir()] == ["add.py"]
    assert "second" in (build.ROOT / "labs" / "add.py").read_text()


@pytest.mark.parametrize("with_sources", [True, False])
def test_a_lab_that_came_with_a_commit_is_simply_built_anew(course, with_sources):
    """As after `git pull`: the last build here wrote another text."""
    (build.ROOT / "labs" / "add.py").write_text("of another build\n")
    changed = course if with_sources else build.ROOT / "solutions" / "labs" / "add.py"
    changed.write_text(changed.read_text() + "\n")
    commit("-a")
    build.build()
    assert [path.name for path in (build.ROOT / "labs").iterdir()] == ["add.py"]


def test_an_answer_that_was_committed_is_kept(course):
    (build.ROOT / "labs" / "add.py").write_text("my answer\n")
    commit("-a")
    build.build()
    assert (build.ROOT / "labs" / "add.mine-1.txt").read_text() == "my answer\n"


def test_a_lab_that_git_does_not_know_is_kept(course):
    subprocess.run(["git", "rm", "-q", "--cached", "labs/add.py"], cwd=build.ROOT, check=True)
    (build.ROOT / "labs" / "add.py").write_text("my answer\n")
    commit()
    build.build()
    assert (build.ROOT / "labs" / "add.mine-1.txt").read_text() == "my answer\n"


def test_a_changed_source_is_no_longer_current(tmp_path, monkeypatch):
    source = source_in(tmp_path, monkeypatch)
    assert not build.record_is_current(source)
    record = build.record_of(source)
    record.write_text(build.dump(build.make_solved_notebook(source)))
    assert build.record_is_current(source)
    source.write_text(SOURCE.replace("add(1, 2)", "add(1, 3)"))
    assert not build.record_is_current(source)


LAB = "### BEGIN SOLUTION\ndef double(x):\n    return 2 * x\n### END SOLUTION\n"
USES = '# %%\nshapes = lab("shapes")\ncheck("2.8")\n'


@pytest.fixture
def part_record(tmp_path, monkeypatch):
    """A part with its record, and a lab that imports another one: a function that writes labs."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    labs = tmp_path / "chapters" / "ch00_add" / "labs"
    for folder in (labs, tmp_path / "solutions"):
        folder.mkdir(parents=True)

    def write(name, text):
        (labs / f"{name}.py").write_text(text)

    write("shapes", f"from sizes import size\n{LAB}")
    write("sizes", "size = 3\n")
    write("other", "size = 4\n")
    source = labs.parent / "00_add.py"
    source.write_text(USES)
    build.record_of(source).write_text(build.dump(build.make_solved_notebook(source)))
    assert build.record_is_current(source)
    return source, write


def test_a_lab_that_changes_makes_the_records_outdated_that_use_it(part_record):
    source, write = part_record
    write("other", "size = 5\n")
    assert build.record_is_current(source)
    write("sizes", "size = 5\n")  # imported by the lab that the part names
    assert not build.record_is_current(source)
    assert build.refresh_record_text(source) is None


def test_a_check_that_changes_makes_the_records_outdated_that_call_it(part_record, monkeypatch):
    source, _ = part_record
    text = "\n".join(cell.source for cell in build.code_of(build.make_solved_notebook(source)))
    files = record_inputs.input_files(text, build.ROOT)
    assert {path.name for path in files} >= {"shapes.py", "sizes.py", "check.py"}
    assert not [path for path in files if "kit" in path.parts]
    digest = record_inputs.digest_file
    monkeypatch.setattr(
        record_inputs, "digest_file", lambda path: digest(path) + "x" * (path.name == "check.py")
    )
    assert not build.record_is_current(source)


def test_where_a_check_imports_the_kit_from_makes_no_record_outdated(tmp_path):
    check = tmp_path / "exercises" / "add" / "check.py"
    check.parent.mkdir(parents=True)
    digests = []
    for text in ("from coursekit.kit import (\n    Formula,\n)\nx = 1", "x = 1", "x = 2"):
        check.write_text(text)
        digests.append(record_inputs.digest_file(check))
    assert digests[0] == digests[1] != digests[2]


def test_comments_and_docstrings_make_no_record_outdated(tmp_path):
    lab, digests = tmp_path / "shapes.py", []
    for text in (
        '"""Shapes."""\nclass Shape:\n    ### BEGIN SOLUTION\n    x = "# 1"  # why\n    # more\n',
        'class Shape:\n    """Is.\n\n    More.\n    """\n    ### BEGIN SOLUTION\n    x = "# 1"\n',
        'class Shape:\n    x = "# 1"\n',
        'class Shape:\n    ### BEGIN SOLUTION\n    x = "# 2"\n',
        'class Shape: "x"; x = "# 1"\n',
        'class Shape:\n    x = """\n\n# 1"""\n',
        'class Shape:\n    x = """\n# 1"""\n',
    ):
        lab.write_text(text)
        digests.append(record_inputs.digest_file(lab))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 6


def test_build_writes_and_executes_everything(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(build, "ROOT", tmp_path)
    chapter = tmp_path / "chapters" / "ch00_add"
    (chapter / "labs" / "tables").mkdir(parents=True)
    (chapter / "00_add.py").write_text(SOURCE)
    (chapter / "labs" / "add.py").write_text(LAB_OF_ONE)
    (chapter / "labs" / "tables" / "runs.csv").write_text("a,b\n")
    build.build(execute_changed=False)
    assert (tmp_path / "notebooks" / "00_add.ipynb").exists()
    assert not (tmp_path / "solutions" / "00_add.ipynb").exists()
    build.build()
    record = nbformat.read(tmp_path / "solutions" / "00_add.ipynb", as_version=4)
    assert record.cells[-1].outputs[0].text == "3\n"
    holes = nbformat.read(tmp_path / "notebooks" / "00_add.ipynb", as_version=4)
    assert "your code here" in holes.cells[1].source
    assert (tmp_path / "labs" / "add.py").read_text() == f"{YOURS}...  # your code here\n"
    assert (tmp_path / "solutions" / "labs" / "add.py").read_text() == f"{HEADER}\n{LAB_OF_ONE}"
    assert (tmp_path / "labs" / "tables" / "runs.csv").read_text() == "a,b\n"
    assert "encryption" not in capfd.readouterr().err


WRONG = """# %% tags=["parameters"]
from pedagogy_lib import check

# %%
check("{number}", lambda *numbers: 0)
"""


@pytest.mark.deep
def test_a_record_in_which_a_check_does_not_pass_is_refused(tmp_path, monkeypatch):
    """A wrong solution would otherwise stay in the record, with its red verdict."""
    source = source_in(tmp_path, monkeypatch)
    source.write_text(WRONG.format(number=EX.tree_seconds))
    with pytest.raises(WrongInput, match=r"00_add\.py: a check did not accept the solution"):
        build.build()
    assert not build.record_of(source).exists()


def test_a_record_of_the_same_code_gets_new_text_and_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "execute", lambda source: pytest.fail("it is executed"))
    source = source_in(tmp_path, monkeypatch)
    notebook = build.make_solved_notebook(source)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", name="stdout", text="3\n")]
    build.record_of(source).write_text(build.dump(notebook))
    source.write_text(f"# %% [markdown]\n# One more cell of text.\n\n{SOURCE}")
    build.build()
    assert build.record_is_current(source)
    record = nbformat.read(build.record_of(source), as_version=4)
    assert record.cells[0].source == "One more cell of text."
    assert record.cells[-1].outputs[0].text == "3\n"


def test_a_record_of_other_code_has_to_be_executed(tmp_path, monkeypatch):
    source = source_in(tmp_path, monkeypatch)
    assert build.refresh_record_text(source) is None
    notebook = build.make_solved_notebook(source)
    build.record_of(source).write_text(build.dump(notebook))
    assert build.refresh_record_text(source) is not None
    source.write_text(SOURCE.replace("add(1, 2)", "add(1, 3)"))
    assert build.refresh_record_text(source) is None


NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=60", "-p", "no:cacheprovider"]


@pytest.mark.parametrize(("output", "passes"), [("3\n", True), ("4\n", False)])
def test_nbval_catches_a_changed_number(tmp_path, output, passes):
    notebook = build.make_notebook("# %%\nprint(1 + 2)\n", "sum")
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name="stdout", text=output)]
    notebook.cells[0].execution_count = 1
    (tmp_path / "sum.ipynb").write_text(build.dump(notebook))
    command = [sys.executable, "-m", "pytest", *NBVAL, str(tmp_path / "sum.ipynb")]
    for _ in range(2):  # its ports may have been taken, see conftest.py
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        if "Kernel died before" not in run.stdout:
            break
    assert (run.returncode == 0) == passes, run.stdout


@pytest.mark.parametrize(
    ("prose", "built"),
    [
        ("It is $n-1$, and\n$a\nb$. No.", "It is $n-1{,}$ and\n$a\nb{.}$ No."),
        ("$$a = b$$, and `$x$.` or $k$-th, $m$", "$$a = b$$, and `$x$.` or $k$-th, $m$"),
        ("```\n$x$.\n```\n$y$:", "```\n$x$.\n```\n$y{:}$"),
    ],
)
def test_no_line_breaks_before_the_end_of_a_sentence(prose, built):
    source = "# %% [markdown]\n" + "".join(f"# {line}\n" for line in prose.splitlines())
    (cell,) = build.make_notebook(source, "00_some").cells
    assert cell.source == built
