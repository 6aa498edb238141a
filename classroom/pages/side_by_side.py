"""The page of similar answers, two by two: a reason for a talk, not a verdict."""

import ast
from functools import cache

from markupsafe import Markup

from coursekit.building import build

from . import similarity
from .findings import answer_of
from .rendering import render_template
from .source import lines_of

MOST_SHOWN = 40  # pairs, so that the page opens on any machine


def page(results: dict) -> str:
    found, skipped = [], []
    for exercise in results["exercises"]:
        known = find_course_pieces(exercise)
        if known is None:
            skipped.append(exercise)
        else:
            found += pairs_in(exercise, results["students"], known)
    found.sort(key=lambda pair: (-pair["share"], -pair["shared"]))
    return render_template(
        "similar.html",
        results=results,
        pairs=[build_pair(pair) for pair in found[:MOST_SHOWN]],
        more=found[MOST_SHOWN:],
        skipped=skipped,
        least_shared=similarity.LEAST_SHARED,
        least_share=similarity.LEAST_SHARE,
        length=similarity.LENGTH,
        many=similarity.MANY,
    )


def pairs_in(exercise, students, known) -> list[dict]:
    """Return what the page shows of each pair of answers to an exercise."""
    answers = [(student, answer_of(student, exercise)) for student in students]
    answers = [(student, answer) for student, answer in answers if answer.get("source")]
    found = similarity.pairs([answer["source"] for _, answer in answers], known)
    return [
        {
            "exercise": exercise,
            "share": pair.share,
            "shared": pair.shared,
            "sides": [(*answers[at], lines) for at, lines in zip(pair.places, pair.lines)],
        }
        for pair in similarity.one_for_each(found)
    ]


def build_pair(pair) -> dict:
    return {**pair, "sides": [side(*one) for one in pair["sides"]]}


def side(student, answer, lines) -> dict:
    texts = enumerate(lines_of(answer["source"]), 1)
    marked = [(Markup(text), number in lines) for number, text in texts]
    return {"student": student, "answer": answer, "lines": marked}


def find_course_pieces(exercise) -> set[tuple] | None:
    """Return the pieces of what was handed out and of its solution, or None if there is neither."""
    stem = exercise["lab"] or exercise["part"]
    sources = [*build.sources(), *build.lab_sources()]
    return next((pieces_in(build.text_of(path)) for path in sources if path.stem == stem), None)


@cache
def pieces_in(text: str) -> set[tuple]:
    """Return the pieces of a text and of each statement alone, as its neighbours are outside it."""
    texts = build.keep_answers(text), build.insert_holes(text)
    parts = [ast.unparse(node) for one in texts for node in ast.parse(one).body]
    return similarity.pieces_of(*texts, *parts)
