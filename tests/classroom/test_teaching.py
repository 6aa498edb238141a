"""Plans keep to what parts need, and misconceptions quote what checks really say."""

import re

import pytest
from exercise_names import EX

from classroom.teaching import misconceptions, plans
from classroom.teaching.misconceptions import SAY, constants, find_sentence, pairs_of, phrases
from classroom.teaching.prerequisites import checks, find_required_parts, find_used_parts
from classroom.teaching.weeks import SIX, TWELVE, Week
from coursekit.chapters import exercise_numbers, parts
from coursekit.protocol import Wrong

PLANS = pytest.mark.parametrize(("weeks", "count"), [(SIX, 6), (TWELVE, 12)])


def test_what_parts_need_comes_before_them():
    order = list(parts())
    for name, part in parts().items():
        assert all(order.index(need) < order.index(name) for need in part.prerequisites), name
    assert parts()["05g"].prerequisites == ("05d", "05e", "05f")
    assert {"02", "02b", "02c", "03", "05", "01"} <= find_required_parts("06")
    assert "02c" in find_used_parts()["02f"] or "02c" in find_required_parts("02f")


@PLANS
def test_a_plan_has_its_weeks_in_an_order_that_works(weeks, count):
    assert len(weeks) == count
    assert plans.order_faults(weeks) == []
    every = [name for week in weeks for name in week.parts.split()]
    assert len(set(every)) == len(every)


@PLANS
def test_no_week_is_longer_than_its_hours(weeks, count):
    assert not [week for week in weeks if not sum(plans.minutes(week)) <= 260]


def test_a_plan_in_the_wrong_order_is_told():
    weeks = [Week("", "00 02c", "", "all_reduce_ring zero1")]
    assert plans.order_faults(weeks) == ["02c comes before 02b", "zero1 is not of this week"]


def test_each_goal_is_seen_by_an_exercise_or_a_prediction():
    for week in [*SIX, *TWELVE]:
        for name in week.parts.split():
            assert re.match(r"exercises? \d|prediction: \w", plans.proof(parts()[name])), name


@pytest.mark.parametrize("written", [plans, misconceptions], ids=["plans", "misconceptions"])
def test_the_pages_are_current(written):
    is_current = written.PAGE.read_text() == written.text()
    assert is_current, "run `python -m classroom.teaching plans`, which writes both pages again"


@pytest.mark.parametrize(
    ("name", "words"), [entry[:2] for entry in SAY], ids=[f"{e[0]} {e[1][:20]}" for e in SAY]
)
def test_a_quoted_sentence_is_said_by_its_check(name, words):
    """Of a formula by trying the mistake; others are tried on ranks by test_answers."""
    number = exercise_numbers()[name]
    sentence, exercise = find_sentence(number, words), checks()[number]
    functions = [function for told, function in pairs_of(exercise) if told == sentence]
    if functions:
        with pytest.raises(Wrong) as caught:
            list(exercise.examine(functions[0]))
        assert caught.value.why == sentence
    else:
        assert sentence in constants(number)
        assert any(phrase in sentence for phrase in phrases(number))


def test_there_is_something_to_say_in_every_chapter():
    assert len(SAY) >= 30
    numbers = [exercise_numbers()[name] for name, *_ in SAY]
    assert {number.split(".")[0] for number in numbers} == {str(n) for n in range(11)}
    with pytest.raises(LookupError, match=f"no sentence of {EX.bubble}"):
        find_sentence(EX.bubble, "the moon is in the way")
