"""What facts say of right and wrong values, without ranks."""

from types import SimpleNamespace

import pytest
import torch

from coursekit.kit import (
    GROUP,
    Equals,
    Formula,
    Holds,
    RankCase,
    RankExercise,
    Sends,
    Trial,
    World,
    diagnoses,
)
from coursekit.kit.diagnoses import difference
from coursekit.kit.facts import complains, first_true
from coursekit.kit.rank_trials import IN_A_GROUP, explain_failure
from coursekit.protocol import Wrong
from pedagogy_lib.basics.errors import RankError

THIRDS = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / 3


def trial_of(values, world=None, **more):
    case = RankCase(world or World(len(values)))
    return Trial(case, [SimpleNamespace(x=value) for value in values], **more)


def find_reason(values, wanted=THIRDS, mistakes=lambda trial, place: {}, **more) -> str:
    with pytest.raises(Wrong) as caught:
        Equals("x", lambda trial, place: wanted, mistakes)(trial_of(values, **more))
    return caught.value.why


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (THIRDS.float(), "the dtype is another one"),
        (THIRDS.float().double(), "nearly right: it was rounded"),
        (2 * THIRDS, "it is 2 times too large"),
        (THIRDS / 2, "it is 1/2 of what it should be"),
        (-THIRDS, "the sign is the other way round"),
        (None, "a function without `return` gives None"),
        (THIRDS + 1, ""),
    ],
)
def test_mistakes_that_may_be_made_anywhere(value, words):
    said = find_reason([value, value])
    assert said.startswith(words)
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    "wanted", [THIRDS, 3, [THIRDS, THIRDS], {"a": THIRDS, "b": 2.0}, "a text", None]
)
@pytest.mark.parametrize(
    "got", [THIRDS[:2], "another text", [THIRDS], [THIRDS, None], {"a": 1.0}, {"a": None, "b": 2.0}]
)
def test_no_value_crashes_a_check(got, wanted):
    find_reason([got, got], wanted)


def test_a_mistake_counts_if_it_fits_everywhere_or_where_it_is_wrong():
    mistakes = lambda trial, place: {"doubled": 2 * THIRDS, "shifted": THIRDS + 1}  # noqa: E731
    assert find_reason([2 * THIRDS, 2 * THIRDS], mistakes=mistakes) == "doubled"
    assert find_reason([THIRDS, THIRDS + 1], mistakes=mistakes) == "shifted"
    assert find_reason([2 * THIRDS, THIRDS + 1], mistakes=mistakes) == "doubled"


def test_a_rank_is_called_by_its_number_in_the_world():
    with pytest.raises(Wrong, match="rank 3: x at"):
        Equals("x", lambda *_: THIRDS)(trial_of([THIRDS, THIRDS, -THIRDS], GROUP))


@pytest.mark.parametrize(("called", "leads"), [("x", "of"), ("x after", "after")])
def test_a_value_is_called_by_its_name(called, leads):
    told = difference(called, {"a": 5, "b": 6, "c": 3}, {"a": 1, "b": 2, "c": 3})
    others = f"; wrong is that {leads} b, too; right is that {leads} c"
    assert told == f"x {leads} a is 5, expected 1{others}"


def test_a_group_is_named_only_after_the_world():
    assert find_reason([THIRDS + 1] * 3, world=GROUP) == ""
    assert find_reason([THIRDS + 1] * 3, world=GROUP, worlds_passed=True) == IN_A_GROUP


@pytest.mark.parametrize(
    ("cause", "said"), [(RuntimeError("gloo"), IN_A_GROUP), (NameError("y"), "a slip")]
)
def test_a_slip_is_none_of_groups(cause, said):
    error = RankError(1, f"raised {cause!r}", cause)
    assert (
        explain_failure([RankCase(World(2)), RankCase(GROUP)], 1, error, lambda *_: "a slip").why
        == said
    )


@pytest.mark.parametrize(("most", "is_looked_at"), [(0, True), (0.0, True), (None, False)])
def test_no_bytes_at_all_is_a_limit(most, is_looked_at):
    trial = trial_of([1], calls=[[]], sent_bytes=[8], received_bytes=[0])
    fact = Sends(lambda trial, place: most, "a backward sends", {})
    if is_looked_at:
        with pytest.raises(Wrong, match="8 bytes; a backward sends 0"):
            fact(trial)
    else:
        assert fact(trial) == ""


def test_a_diagnosis_that_fails_is_silent(monkeypatch):
    monkeypatch.setattr(diagnoses, "MAY_FAIL", True)
    fails = lambda *_: [][0]  # noqa: E731
    facts = (
        Equals("x", lambda *_: THIRDS, fails, otherwise=fails, tells=fails),
        Holds("x", lambda value: False, fails, fails),
    )
    for fact in facts:
        with pytest.raises(Wrong, match="rank 0") as caught:
            fact(trial_of([THIRDS + 1]))
        assert caught.value.why == ""
    formula = Formula("one", {"any": [()]}, lambda: 1, [], (), differs=fails, explain=fails)
    with pytest.raises(Wrong, match="expected 1, got 2"):
        list(formula.examine(lambda: 2))


def test_the_first_complaint_counts():
    fact = complains(lambda trial: iter([("this", "why"), ("that", "")]))
    with pytest.raises(Wrong, match="this"):
        fact(trial_of([1]))
    assert complains(lambda trial: iter(()))(trial_of([1])) is None
    assert first_true({"a": False, "b": True, "c": True}) == "b"
    assert first_true({"a": False}) == ""


class Values(RankExercise):
    """What its ranks have found is known."""

    def trials(self, answer):
        for case in self.cases:
            yield Trial(case, [SimpleNamespace(x=answer(case.world.size))] * case.world.size)


def test_of_an_unknown_mistake_is_told_where_there_is_none():
    said = "it is right for: 1 rank; 3 ranks. What is different here?"
    fact = Equals("x", lambda trial, place: trial.n)
    cases = [RankCase(World(n)) for n in (1, 2, 3)]
    exercise = Values("size", cases, None, [fact], "", ())
    with pytest.raises(Wrong) as caught:
        list(exercise.examine(lambda n: 7 if n == 2 else n))
    assert caught.value.why == said
    formula = Formula("size", {str(case): [(case.world.size,)] for case in cases},
                      lambda n: n, [], ())  # fmt: skip
    with pytest.raises(Wrong) as caught:
        list(formula.examine(lambda n: 7 if n == 2 else n))
    assert caught.value.why == said
