"""The results of a grading: results.json, grades.csv, and a summary on the terminal."""

import csv
import io
import json
from collections import Counter
from datetime import datetime
from pathlib import Path

from .verdict_cache import write_whole

STATES = ("right", "wrong", "missing", "unfinished", "look", "broken", "waiting")
RESULTS, GRADES, ACCEPTED = "results.json", "grades.csv", "accepted.json"


def results_of(title, version, asked, students, accepted) -> dict:
    """Return all of results.json, whose form is in the README of the classroom."""
    return {
        "title": title,
        "version": version,
        "when": f"{datetime.now():%d %B %Y, %H:%M}",
        "exercises": [one.dump_fields() for one in asked],
        "students": [decide_student_entry(student, accepted) for student in students],
    }


def decide_student_entry(student, accepted) -> dict:
    """Return a student's entry in which an answer that a person has to look at does not count."""
    answers = {
        number: decide_entry(entry, accepted.get(student["student"], {}).get(number))
        for number, entry in student["answers"].items()
    }
    return student | {"answers": answers}


def decide_entry(entry, accepted_code) -> dict:
    entry = dict(entry)
    looks, code = entry.pop("looks", []), entry.pop("code", "")
    if not looks or entry["state"] not in ("right", "wrong"):
        return entry
    if accepted_code == code:
        return entry | {"reasons": [*entry["reasons"], "looked at, and accepted"]}
    said = [*entry["reasons"], *looks, f"the check says: {entry['state']}"]
    return entry | {"state": "look", "score": 0.0, "reasons": said}


# ---- What a person has accepted ---


def read_accepted(out: Path) -> dict:
    """Return {student: {number: digest of the code that was looked at}}."""
    try:
        found = json.loads((out / ACCEPTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def accept(wishes, students, accepted) -> tuple[dict, list[str]]:
    """Return what is accepted now, and wishes for unknown answers; a wish is (student, number)."""
    unknown = []
    for student, number in wishes:
        entries = next((s["answers"] for s in students if s["student"] == student), {})
        if number in entries:
            accepted.setdefault(student, {})[number] = entries[number]["code"]
        else:
            unknown.append(f"{student}:{number}")
    return accepted, unknown


# ---- Files ---


def write(results, accepted, out: Path):
    write_whole(out / RESULTS, json.dumps(results, indent=1, ensure_ascii=True))
    write_whole(out / ACCEPTED, json.dumps(accepted, indent=1, ensure_ascii=True))
    write_whole(out / GRADES, grades_of(results))


def find_waiting_answers(results) -> set[tuple[str, str]]:
    """Return (student, number) of each answer that an interrupted grading has not judged."""
    return {
        (student["student"], number)
        for student in results["students"]
        for number, entry in student["answers"].items()
        if entry["state"] == "waiting"
    }


def would_be_lost(results, out: Path) -> int:
    """Count the answers that wait in these results but have a verdict in the folder's results.

    Those verdicts are on an older course or other code, so `known/` has none on the present ones.
    """
    try:
        before = json.loads((out / RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    there = {(one["student"], number) for one in before["students"] for number in one["answers"]}
    return len(find_waiting_answers(results) & (there - find_waiting_answers(before)))


def grades_of(results) -> str:
    """Return a CSV line per student, with no name that a spreadsheet takes for a formula (= + - @).

    The score of an answer that is not judged yet is empty, and its points are not in `of`.
    """
    numbers = [one["number"] for one in results["exercises"]]
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["student", *numbers, "total", "of", "to look at"])
    for student in results["students"]:
        entries = [student["answers"][number] for number in numbers]
        points = {one["number"]: one["points"] for one in results["exercises"]}
        is_judged = [entry["state"] != "waiting" for entry in entries]
        scores = points_of(results, student)
        looks = sum(entry["state"] in ("look", "broken") for entry in entries)
        of = sum(points[number] for number, judged in zip(numbers, is_judged) if judged)
        cells = [score if judged else "" for score, judged in zip(scores, is_judged)]
        total = round(sum(scores), 3)
        table.writerow([harmless(student["student"]), *cells, total, of, looks])
    return file.getvalue()


def points_of(results, student) -> list[float]:
    return [
        round(one["points"] * student["answers"][one["number"]]["score"], 3)
        for one in results["exercises"]
    ]


def harmless(text) -> str:
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


# ---- On the terminal ---


def summary(results) -> str:
    """Return a few lines on how the class did, and on what waits for a person."""
    students = results["students"]
    lines = [f"{results['title']}: {len(students)} students, {len(results['exercises'])} exercises"]
    for one in results["exercises"]:
        found = Counter(student["answers"][one["number"]]["state"] for student in students)
        told = ", ".join(f"{found[state]} {state}" for state in STATES if found[state])
        lines.append(f"  {one['number']:>5} {one['name']:32.32} {told}")
    for student in students:
        lines += [f"  {student['student']}: {problem}" for problem in student["problems"]]
        lines += list_decisions(student)
    return "\n".join(map(printable, lines))


def printable(line) -> str:
    """Replace control characters: students wrote the names and code, and terminals obey them."""
    return "".join(c if c.isprintable() else "?" for c in line)


def list_decisions(student) -> list[str]:
    """Return lines that say what a person has to decide about a student's answers, and how."""
    lines = []
    for number, entry in student["answers"].items():
        name = f"{student['student']}:{number}"
        if entry["state"] == "look":
            reasons = "; ".join(entry["reasons"])
            lines.append(f'  look: {reasons}. If it is harmless: --accept "{name}"')
        if entry["state"] == "broken":
            lines.append(f"  broken: {name}: {entry['what']}. Grade again, or by hand")
    return lines
