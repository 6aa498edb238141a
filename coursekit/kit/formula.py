"""Exercises whose answer is a function of its arguments: no ranks, and truth by another way.

A mistake is a wrong function with its sentence. The same entry diagnoses it, and is tested.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from pedagogy_lib.basics.closeness import close_in_float32

from ..answers.remote_answer import call_next_to_answer
from ..protocol import Wrong
from .diagnoses import run_diagnosis
from .results import NOT_ITS_OWN, CallFailure, equal, is_number, need_kind, plain, text_of


@dataclass(frozen=True, eq=False)
class Formula:
    """An exercise that asks for a function of numbers.

    name     the name of the learner's function
    cases    {case: the arguments of each of its calls}
    truth    returns the right value for such arguments, in another way than the solution does
    mistakes [(the misconception, a wrong function that takes what the answer takes), …]
    hints    two to four sentences, from vague to nearly the solution
    lab      the lab that the function is in; without one, it is in a cell of the part
    unit     the unit of a number, such as " s", which follows it in lines and diagnoses
    asked    what kind of value is expected, in words: "a list of indices"
    shape    the diagnosis of a value of another kind
    same     whether a value is the right one; by default, equal up to rounding
    whole    which numbers must be whole wherever the truth's are: "ranks are whole numbers"
    right    takes a case's calls and values, and returns the line about a right case
    differs  takes arguments, the expected value and the answer's, and describes the error
    errors   {words of an exception: what they mean here}
    explain  takes {case: values} and the wrong case, for mistakes that no function can show
    slow     the misconception of an answer that runs on and on; by default, an endless loop
    also     takes the answer when all values are right, and goes on: yields lines, raises `Wrong`
    """

    number: str = field(default="", kw_only=True)  # from its place in chapter.toml
    name: str
    cases: dict[str, list[tuple]]
    truth: Callable
    mistakes: list[tuple[str, Callable]]
    hints: tuple[str, ...]
    same: Callable = equal
    right: Callable | None = None
    differs: Callable | None = None
    errors: dict[str, str] = field(default_factory=dict)
    explain: Callable | None = None
    also: Callable | None = None
    unit: str = ""
    whole: str = ""
    asked: str = ""
    shape: str = ""
    lab: str | None = None
    slow: str = ""

    def build_case_formula(self) -> "Formula":
        """Return the exercise whose truth and mistakes take the arguments of its cases."""
        return self

    def calls_tried(self) -> list[tuple]:
        """Return the arguments of each call of the truth and of the mistakes."""
        return [call for calls in self.cases.values() for call in calls]

    def examine(self, answer):
        """Yield a line for each right case; raise `Wrong` at the first wrong one."""
        found = {case: [value_of(answer, call) for call in calls]
                 for case, calls in self.cases.items()}  # fmt: skip
        for case, calls in self.cases.items():
            for call, got in zip(calls, found[case]):
                wanted = plain(self.truth(*call))
                need_everywhere(case, got, wanted, found)
                need_kind(case, got, wanted, self.why_not_a_value(got, found), self.asked)
                if not self.same(got, wanted):
                    raise Wrong(case, self.difference(call, wanted, got), self.why(found, case))
                if self.whole and not keeps_integers(got, wanted):
                    raise Wrong(case, f"got {got!r:.90}", f"{self.whole}: 1, and not 1.0")
            yield f"{case}: {(self.right or self.format_values)(calls, found[case])}"
        self.need_the_same_again(answer)
        if self.also:
            yield from self.also(answer)

    def need_the_same_again(self, answer):
        """Raise `Wrong` if the first call gives another value after all the others."""
        case, (call, *_) = next(iter(self.cases.items()))
        got, wanted = value_of(answer, call), plain(self.truth(*call))
        if is_raised(got) or not self.same(got, wanted):
            told = "" if is_raised(got) else self.difference(call, wanted, got)
            what = f"called once more: {told or text_of(got)}"
            raise Wrong(case, what, PILED_UP)

    def format_values(self, calls, values) -> str:
        return ", ".join(f"{text_of(value)}{self.unit}" for value in values)

    def difference(self, call, wanted, got) -> str:
        told = self.differs and run_diagnosis(self.differs, call, wanted, got)
        return told or f"expected {text_of(wanted)}{self.unit}, got {text_of(got)}{self.unit}"

    def why_not_a_value(self, got, found) -> str:
        if not is_raised(got):
            return self.shape
        alike = (why for why, function in self.mistakes if self.fails_like(function, found))
        return next(alike, "") or next(
            (why for words, why in self.errors.items() if words in got.text), ""
        )

    def why(self, found, case) -> str:
        """Return the mistake that gives the same in all calls, this case, or its wrong call.

        A mistake is ruled out if it is wrong where the answer is right.
        """
        here = list(zip(self.cases[case], found[case]))
        everywhere = [pair for each in self.cases for pair in zip(self.cases[each], found[each])]
        wrong = next(pair for pair in here if not self.same(pair[1], plain(self.truth(*pair[0]))))
        told = run_diagnosis(self.explain, found, case) if self.explain else ""
        right = [pair for pair in everywhere if self.same(pair[1], plain(self.truth(*pair[0])))]
        if why := self.mistake_in(everywhere) or first_that_fits(KEPT, self, everywhere):
            return why
        if why := self.mistake_in([*here, *right]) or told:
            return why
        told = self.mistake_in([wrong, *right]) or first_that_fits(GENERAL, self, found, case)
        return told or where_right(each for each in self.cases if self.is_right(each, found))

    def is_right(self, case, found) -> bool:
        pairs = zip(self.cases[case], found[case])
        return all(self.same(got, plain(self.truth(*call))) for call, got in pairs)

    def mistake_in(self, pairs) -> str:
        """Return the first mistake that gives these values, if possible one that also raises."""
        found = [one for one in self.mistakes if self.agrees(one[1], pairs)]
        raises = [one for one in found if self.raises_alike(one[1], pairs)]
        return next((why for why, _ in [*raises, *found]), "")

    def agrees(self, function, pairs) -> bool:
        """Return whether a function gives the values of these calls: [(call, value), …]."""
        values = ((call, got) for call, got in pairs if not is_raised(got))
        return all(self.same(got, value_of(function, call)) for call, got in values)

    def raises_alike(self, function, pairs) -> bool:
        """Return whether a function raises at least where the answer does."""
        return all(is_raised(value_of(function, call)) for call, got in pairs if is_raised(got))

    def fails_like(self, function, found) -> bool:
        """Return whether a function raises where the answer does, and else gives the same."""
        for case, calls in self.cases.items():
            for call, got in zip(calls, found[case]):
                guess = value_of(function, call)
                if is_raised(got) != is_raised(guess):
                    return False
                if not is_raised(got) and not self.same(got, guess):
                    return False
        return True


def where_right(cases) -> str:
    """Return the sentence about an unknown mistake, which names cases where the answer is right."""
    some = [str(case) for case in islice(cases, 4)]
    return f"it is right for: {'; '.join(some)}. What is different here?" if some else ""


def is_raised(value) -> bool:
    return isinstance(value, CallFailure)


def value_of(function, call):
    """Return a call's plain value, or its failure. Raise `Wrong` if it changes its arguments."""
    given = copy.deepcopy(call)
    try:
        value, changed = call_next_to_answer(value_and_change, function, given, call)
    except (Exception, SystemExit) as error:  # exit() would end the kernel
        return CallFailure(error)
    if changed:
        raise Wrong("its arguments", f"they are now {changed}", NOT_ITS_OWN)
    return value


def value_and_change(function, given, call) -> tuple:
    """Return an answer's value, and its arguments as text if they are no longer as in `call`."""
    value = plain(function(*given))
    given = plain(list(given))
    return value, text_of(given) if given != plain(list(call)) else ""


def keeps_integers(got, wanted) -> bool:
    """Return whether every number that is an int in `wanted` is one in `got`, too."""
    if isinstance(wanted, dict):
        return all(keeps_integers(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return all(map(keeps_integers, got, wanted))
    return not isinstance(wanted, int) or isinstance(got, int)


def first_that_fits(questions, *args) -> str:
    """Return the first sentence that a question finds, or an empty one."""
    return next(filter(None, (question(*args) for question in questions)), "")


def need_everywhere(case, got, wanted, found):
    """Raise `Wrong` for None where other calls give values."""
    others = (value for values in found.values() for value in values)
    if got is None and wanted is not None and not all(value is None for value in others):
        raise Wrong(case, "it returned None", NONE_HERE)


# ---- Mistakes that any formula may have ---


def recognise_accumulation(exercise, pairs) -> str:
    """Return PILED_UP if each list or number goes on from the call before, else ""."""
    before = None
    for call, got in pairs:
        wanted = plain(exercise.truth(*call))
        if not isinstance(got, list) and not is_number(got):
            return ""
        if not exercise.same(got, wanted if before is None else sum_of(before, wanted)):
            return ""
        before = got
    return PILED_UP


def sum_of(before, wanted):
    return before + wanted if type(before) is type(wanted) else wanted


def always_the_same(exercise, pairs) -> str:
    """Return a sentence if all calls give the first value, although not all should; else ""."""
    (call, first), *others = pairs
    wanted = plain(exercise.truth(*call))
    if len(others) < 2 or all(plain(exercise.truth(*call)) == wanted for call, _ in others):
        return ""
    return ALWAYS_THE_SAME if all(exercise.same(got, first) for _, got in others) else ""


def recognise_factor(exercise, found, case) -> str:
    """Return a sentence if all values are right but for one factor or rounding, else ""."""
    pairs = [
        pair
        for each in exercise.cases
        for call, got in zip(exercise.cases[each], found[each])
        for pair in pairs_of(got, plain(exercise.truth(*call)))
    ]
    if not all(is_number(one) for pair in pairs for one in pair):
        return ""
    for factor, why in FACTORS.items():
        if all(equal(got, float(factor * wanted)) for got, wanted in pairs):
            return why
    if any(isinstance(got, float) for got, _ in pairs) and all(
        isinstance(wanted, int) and close_in_float32(got, float(wanted)) for got, wanted in pairs
    ):
        return IN_FLOAT32
    is_rounded = (all(got == round(wanted, digits) for got, wanted in pairs) for digits in range(9))
    return ROUNDED if any(is_rounded) else ""


def not_of_bool(exercise, found, case) -> str:
    """Return a sentence for 1 and 0 where True and False are asked, or the other way round."""
    for call, got in zip(exercise.cases[case], found[case]):
        wanted = plain(exercise.truth(*call))
        if got == wanted and not exercise.same(got, wanted):
            return (
                f"asked is {exercise.asked}" if exercise.asked else "True is not 1, and False not 0"
            )
    return ""


def pairs_of(got, wanted) -> list[tuple]:
    """Return pairs of numbers: one for two numbers, one per entry for two lists or dicts."""
    if isinstance(got, dict) and isinstance(wanted, dict) and got.keys() == wanted.keys():
        return [(got[key], wanted[key]) for key in wanted]
    are_lists = isinstance(got, list) and isinstance(wanted, list) and len(got) == len(wanted)
    return list(zip(got, wanted)) if are_lists else [(got, wanted)]


FACTORS = {
    1e-6: "this is in millions: give the number in its own unit",
    1e-9: "this is in billions: give the number in its own unit",
    1 / 2**20: "this is in MiB: give the number in its own unit",
    1 / 2**30: "this is in GiB: give the number in its own unit",
    100: "this is in percent; asked is the number: 0.25, not 25",
    -1: "the sign is the other way round",
}
ROUNDED = "it seems to be rounded: return the number itself"
IN_FLOAT32 = "right to seven digits: it was rounded to float32 on its way; float64 keeps more"
NONE_HERE = (
    "for other arguments it returns a value, and here None: a branch without `return`, or a "
    "variable that nothing has set yet"
)
PILED_UP = "what an earlier call has left is still in it: each call begins anew"
ALWAYS_THE_SAME = (
    "it gives the same for all arguments: it keeps its first result, or has numbers of the example "
    "written in"
)
KEPT = (recognise_accumulation, always_the_same)
GENERAL = (recognise_factor, not_of_bool)
