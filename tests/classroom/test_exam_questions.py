"""Each exam question is right: its written answer and a second computation agree everywhere."""

import math
import re
import string
from collections import Counter
from decimal import Decimal
from operator import attrgetter

from each import repeat_for_each

from classroom.teaching.question import LEVELS
from classroom.teaching.questions import CHAPTERS, questions_of
from coursekit.building import build

QUESTIONS = questions_of()
NUMBER = attrgetter("number")
WITH_NUMBERS = [question for question in QUESTIONS if question.solve]
PARTS = {source.stem.split("_")[0] for source in build.sources()}


def fields(text) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@repeat_for_each("question", WITH_NUMBERS, NUMBER)
def test_two_ways_agree_on_every_variant(question):
    for variant in question.variants():
        found, again = question.solve(**variant), question.again(**variant)
        assert found.keys() == again.keys()
        for name, number in found.items():
            assert math.isclose(number, again[name], rel_tol=1e-6, abs_tol=1e-9), (variant, name)


@repeat_for_each("question", WITH_NUMBERS, NUMBER)
def test_the_standard_variant_is_what_was_worked_out_on_paper(question):
    again = question.again(**next(question.variants()))
    assert question.stated.keys() == again.keys()
    for name, number in question.stated.items():
        last_digit = 10.0 ** Decimal(str(number)).as_tuple().exponent
        assert abs(number - again[name]) <= 0.51 * last_digit, name


@repeat_for_each("question", QUESTIONS, NUMBER)
def test_every_number_in_an_answer_has_been_computed(question):
    given, solved = set(question.given), set(question.stated)
    assert fields(question.text) <= given
    assert fields(question.answer) | fields(question.why) <= given | solved
    assert solved <= fields(question.answer) | fields(question.why)
    assert bool(question.solve) == bool(question.again) == bool(question.stated)
    if not question.solve:
        assert not question.given


@repeat_for_each("question", QUESTIONS, NUMBER)
def test_a_question_says_where_it_belongs_and_what_it_takes(question):
    assert question.part in PARTS
    assert question.number.split(".")[0] == str(int(question.chapter))
    assert question.level in LEVELS
    assert 2 <= question.minutes <= 12
    assert not re.search(
        r"\{|\}|\bnan\b|\binf\b", "".join(vars(question.build_variant()).get("text"))
    )


def test_there_are_enough_of_every_chapter():
    *others, _ = sorted({part[:2] for part in PARTS})  # the last, the capstone, is an exam itself
    assert others == CHAPTERS
    of = Counter(question.chapter for question in QUESTIONS)
    assert min(of.values()) >= 5
    assert len(QUESTIONS) >= 60
    assert len({question.number for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS)
