"""A class whose answers are those in answers.py, with what the real checks say to them."""

import random
import re
from functools import cache

from answer_files import Answer, all_answers

from coursekit.building import build

FIRST = ["Ada", "Ben", "Chiara", "Dmitri", "Eun-ji", "Farid", "Grete", "Hugo", "Ines", "João",
         "Kofi", "Léa", "Mehmet", "Ngozi", "Oskar", "Priya", "Quentin", "Rosa", "Søren",
         "Thảo"]  # fmt: skip
LAST = ["Abels", "Núñez", "O'Neill", "Østergaard", "van-der-Berg", "Wójcik", "Zhang", "Şahin"]
HEADING = re.compile(r"^# ### Exercise (\d+\.\d+)(.*)$", re.MULTILINE)
OF_EACH = {"right": 3, "wrong": 5}  # different answers to an exercise


def entries(chapter: str) -> list[dict]:
    """The chapter's exercises, as results have them."""
    found = {}
    for path in build.sources():
        for number, title in HEADING.findall(build.text_of(path)):
            found[number] = (path.stem, f"Exercise {number}{title}")
    exercises = dict.fromkeys(answer.exercise.number for answer in answers_of(chapter))
    names = {answer.exercise.number: answer.exercise for answer in answers_of(chapter)}
    return [
        {"number": number, "name": names[number].name, "lab": names[number].lab,
         "part": found[number][0], "title": found[number][1], "points": 1.0}
        for number in exercises
    ]  # fmt: skip


@cache
def answers_of(chapter: str) -> list[Answer]:
    return [one for one in all_answers() if one.exercise.number.split(".")[0] == chapter]


def find_answers(number: str, kind: str) -> list[Answer]:
    found = [one for one in all_answers() if one.exercise.number == number and one.kind == kind]
    return found[: OF_EACH[kind]]


def results_of_class(check, chapter="02", students=40) -> dict:
    """Results of a class. `check` takes an `Answer` and gives its `Verdict`."""
    draw, check = random.Random(0), cache(check)
    exercises = entries(str(int(chapter)))
    names = [f"{first} {last}" for last in LAST for first in FIRST]
    return {
        "title": f"Chapter {chapter}, the first week",
        "version": "2026.1",
        "exercises": exercises,
        "students": [student(name, at, exercises, draw, check)
                     for at, name in enumerate(draw.sample(names, students))],
    }  # fmt: skip


def student(name, at, exercises, draw, check) -> dict:
    ability = draw.betavariate(4, 2)
    stops = len(exercises) if draw.random() < ability else draw.randrange(len(exercises))
    answers = {}
    for place, exercise in enumerate(exercises):
        difficulty = 0.75 * place / len(exercises)
        if place < stops and draw.random() > 0.05:
            is_right = draw.random() < ability * (1.3 - difficulty)
            answers[exercise["number"]] = build_entry(exercise, is_right, draw, check)
        else:
            answers[exercise["number"]] = build_missing_entry(exercise)
    where = f"moodle/{name}_{4100 + at}_assignsubmission_file_"
    problems = ["02d_bytes_of_all.ipynb: line 41 is no JSON; the rest was graded"] * (at % 13 == 5)
    return {"student": name, "from": where, "problems": problems, "answers": answers}


def build_entry(exercise, is_right, draw, check) -> dict:
    choice = find_answers(exercise["number"], "right" if is_right else "wrong")
    # Some mistakes are made by many.
    answer = draw.choices(choice, [1 / (1 + rank) for rank in range(len(choice))])[0]
    verdict, wrong = check(answer), check(answer).wrong
    of = len(verdict.lines) + (0 if is_right else draw.randint(1, 4))
    score = 1.0 if is_right else round(len(verdict.lines) / of, 2)
    return {
        "state": "right" if is_right else "wrong",
        "score": score,
        "where": f"{exercise['part']}.ipynb, cell {draw.randint(9, 40)}",
        "source": (answer.given + answer.program).strip("\n"),
        "right": verdict.lines,
        "case": wrong.case if wrong else "",
        "what": wrong.what if wrong else "",
        "why": wrong.why if wrong else "",
        "printed": verdict.printed.kept if verdict.printed else "",
        "facts": [len(verdict.lines), of],
        "reasons": [],
        "seconds": 0.4,
    }


def build_missing_entry(exercise) -> dict:
    what = f"there is no function {exercise['name']} in what was handed in"
    return {"state": "missing", "score": 0.0, "where": "", "source": "", "right": [], "case": "",
            "what": what, "why": "", "printed": "", "facts": [0, 0], "reasons": [],
            "seconds": 0.0}  # fmt: skip
