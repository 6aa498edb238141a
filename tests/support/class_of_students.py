"""A class that hands in: submissions with answers of which it is known what they are.

python tests/support/class_of_students.py FOLDER [--students 40] [--chapter 02] [--layout zips]
"""

import argparse
import ast
import io
import random
import subprocess
import zipfile
from pathlib import Path

from answer_files import Answer, all_answers, solution_of

from coursekit.building import build
from coursekit.check_runner import exercises_of

NAMES = ["Ada", "Bo", "Cem", "Dua", "Eli", "Fay", "Gus", "Hua", "Ida", "Jan", "Kim", "Lea"]
LAYOUTS = ("folders", "zips", "submitted", "exchange", "canvas", "moodle", "repositories")


def answers_to(exercise) -> dict[str, list[str]]:
    """{"right" or "wrong": programs that define the answer, and no other exercise}"""
    found = {"right": [solution_of(exercise)], "wrong": []}
    for answer in all_answers():
        is_its = answer.exercise.number == exercise.number
        if is_its and not answer.is_deep and defines_it_alone(answer):
            found[answer.kind].append(answer.given + answer.program)
    return found


def defines_it_alone(answer: Answer) -> bool:
    others = {one.name for one in exercises_of(answer.exercise.number.split(".")[0]).values()}
    defined = {getattr(node, "name", "") for node in ast.parse(answer.given + answer.program).body}
    return not (defined & others) - {answer.exercise.name}


def files_with(chapter: str, programs: dict[str, str]) -> dict[str, bytes]:
    """A student's notebooks and labs of a chapter, with these programs as answers, by number."""
    texts = {}
    exercises = exercises_of(str(int(chapter)))
    for path in build.sources():
        if path.stem.startswith(chapter):
            texts[f"work/{path.stem}.ipynb"] = build.insert_holes(build.text_of(path))
    for lab in {one.lab for one in exercises.values() if one.lab}:
        source = build.text_of(build.source_of(lab))
        texts[f"labs/{lab}.py"] = build.insert_holes(source)
    for number, program in programs.items():
        one = exercises[number]
        homes = [f"labs/{one.lab}.py"] if one.lab else [n for n in texts if n[:5] == "work/"]
        for home in homes:
            texts[home] = replace_definition(texts[home], one.name, program)
    return {name: encode_file(name, text) for name, text in texts.items()}


def replace_definition(text, name, program) -> str:
    """The text with another definition of that name; the same text if it has none."""
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if getattr(node, "name", None) == name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            return "".join([*lines[: first - 1], program + "\n", *lines[node.end_lineno :]])
    return text


def encode_file(name, text) -> bytes:
    if not name.endswith(".ipynb"):
        return text.encode()
    return build.dump(build.make_notebook(text, Path(name).stem)).encode()


def a_class(chapter="02", count=40, seed=0):
    """Yield (student, {number: "right", "wrong" or "missing"}, files)."""
    chance = random.Random(seed)
    known = {n: answers_to(one) for n, one in exercises_of(str(int(chapter))).items()}
    for turn in range(count):
        student = f"{NAMES[turn % len(NAMES)]}{turn:02}"
        kinds = chance.choices(("right", "wrong", "missing"), (6, 3, 1), k=len(known))
        plan = dict(zip(known, kinds))
        plan = {n: kind if known[n].get(kind) else "missing" for n, kind in plan.items()}
        programs = {n: chance.choice(known[n][k]) for n, k in plan.items() if k != "missing"}
        yield student, plan, files_with(chapter, programs)


# ---- How it is handed in --------------------------------------------------------------------


def zip_files(files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def put_files(folder: Path, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def hand_in(folder: Path, student: str, files, layout="zips", turn=0):
    """Write a submission as a platform would."""
    if layout in ("zips", "canvas"):
        name = student if layout == "zips" else f"{student.lower()}_{100 + turn}_{900 + turn}_hw"
        put_files(folder, {f"{name}.zip": zip_files(files)})
    elif layout == "moodle":
        put_files(folder / f"{student}_{turn}_assignsubmission_file_", {"hw.zip": zip_files(files)})
    elif layout == "submitted":
        put_files(folder / "submitted" / student / "ch", files)
    elif layout == "exchange":
        put_files(folder / f"{student}+ch+2026-11-02 15:58:{turn % 60:02}.948203 UTC+x1", files)
    else:
        put_files(folder / student, files)
        if layout == "repositories":
            commit(folder / student)


def commit(folder):
    who = ["-c", "user.name=s", "-c", "user.email=s@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "answers"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--students", type=int, default=40)
    parser.add_argument("--chapter", default="02")
    parser.add_argument("--layout", choices=LAYOUTS, default="zips")
    options = parser.parse_args()
    for turn, (student, plan, files) in enumerate(a_class(options.chapter, options.students)):
        hand_in(options.folder, student, files, options.layout, turn)
        print(student, " ".join(f"{number}:{kind}" for number, kind in plan.items()))


if __name__ == "__main__":
    main()
