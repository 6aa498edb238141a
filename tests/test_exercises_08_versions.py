"""Chapter 08, versions of weights and slices of samples: right answers pass, wrong ones not."""

import linecache

import pytest
import torch
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.course.labs import find_lab
from pedagogy_lib.exercises import broken_versions, slicing, stashing

MODULES = stashing, broken_versions, slicing
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}


def solution(name) -> str:
    return (ROOT / "solutions" / "labs" / f"{name}.py").read_text()


def without_program(name) -> str:
    return solution(name).partition("# ---- The program")[0]


SOLVED = {  # the labs without what is not needed here: every rank reads them
    "language_model": solution("language_model"),
    "simple_ddp": "now = None",
    "schedules": without_program("schedules"),
    "pipeline_parallel": solution("pipeline_parallel"),
    "pipedream": without_program("pipedream"),
    "sequence_slices": without_program("sequence_slices"),
}


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check an exercise whose class is another one in the learner's file.

    changes  {lab: [(old, new), …]}: what is changed in our solution
    """

    def check_one(number, changes, solutions=None):
        for name, text in SOLVED.items():
            put_lab(tmp_path, monkeypatch, name, changed(text, changes.get(name, ())))
        for name, text in (solutions or {}).items():
            put_lab(tmp_path, monkeypatch, name, changed(text, changes.get(name, ())), text)
        return check(number)

    return check_one


def changed(text, pairs) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return text


# ---- 8.14 and 8.16: in labs --------------------------------------------------------------------

STASH = "        self.stash[i] = weights\n"
DETACH = "        x = x.detach().requires_grad_(x.is_floating_point())\n"
THROUGH = "        y = then(functional_call(self.piece, weights, (x,)))\n"
CLEAR = "        for weight in weights.values():\n            weight.grad = None\n"
COLLECT = "        gradients = {name: weight.grad for name, weight in weights.items()}\n"
POP = "weights = self.stash.pop(i)"
TAKE = "        x, y = self.kept.pop(i)\n"
IF = "                if seen.grad is not None:\n"
ADD = "                    outputs.append(made)\n                    gradients.append(seen.grad)\n"
OUTPUTS = "        outputs, gradients = [y], [gradient]\n"
PASTS = "        for past in self.pasts.values():\n"
ZIP = "            for made, seen in zip(past.made[i], past.seen[i]):\n"
ALL = "        torch.autograd.backward(outputs, gradients)\n"
COLLECTED = OUTPUTS + PASTS + ZIP + IF + ADD

RIGHT = {
    "8.14": {
        "other loops": [
            (STASH + DETACH + THROUGH,
             "        x = x.detach().clone()\n"
             "        if x.dtype.is_floating_point:\n            x.requires_grad = True\n"
             "        y = then(functional_call(self.piece, tuple([weights]), x))\n"
             "        self.stash.update({i: self.weights[version]})\n"),
            (COLLECT + CLEAR,
             "        gradients = {}\n        for name in weights:\n"
             "            gradients[name], weights[name].grad = weights[name].grad, None\n"),
        ],
        "cloned, then zeros": [
            ("weight.grad for name", "weight.grad.clone() for name"),
            ("weight.grad = None", "weight.grad.zero_()"),
        ],
    },
    "8.16": {
        "in two lists of their own": [
            (COLLECTED + ALL,
             "        pairs = [(y, gradient)]\n"
             "        for past in self.pasts.values():\n"
             "            made, seen = past.made.pop(), past.seen.pop()\n"
             "            pairs += [(m, s.grad) for m, s in zip(made, seen) if s.grad is not "
             "None]\n"
             "        torch.autograd.backward(*map(list, zip(*pairs)))\n"),
        ],
        "zeros for None, and a product": [
            (COLLECTED + ALL,
             "        total = y if gradient is None else (y * gradient).sum()\n"
             "        for past in self.pasts.values():\n"
             "            for j in (0, 1):\n"
             "                got = past.seen[i][j].grad\n"
             "                if got is not None:\n"
             "                    total = total + (past.made[i][j] * got).sum()\n"
             "        total.backward()\n"),
        ],
    },
}  # fmt: skip
WRONG = {
    "8.14": {
        "at the newest weights": [
            ("gradient = super().backward(i, gradient)",
             "x, _ = self.kept.pop(i)\n"
             "        x = x.detach().requires_grad_(x.is_floating_point())\n"
             "        y = functional_call(self.piece, self.weights[self.version], (x,))\n"
             "        y = y if gradient is not None else (y - 1.0).square().mean()\n"
             "        y.backward(gradient)\n        gradient = x.grad"),
            (POP, "weights = self.weights[self.version]\n        del self.stash[i]"),
        ],
        "asked of the newest version": [(POP, "weights = self.weights[self.version]")],
        "gradients of one version add up": [(CLEAR, "")],
        "no weight has moved": [("weight.grad = None", "weight.grad.zero_()")],
        "what a micro-batch has stashed stays there": [("self.stash.pop(i)", "self.stash[i]")],
        "went on beyond x": [(DETACH, "")],
        "functional_call(self.piece, weights, (x,)) takes others": [
            (THROUGH, "        y = then(self.piece(x))\n"),
        ],
    },
    "8.16": {
        "y's backward alone": [(COLLECTED + ALL, "        y.backward(gradient)\n")],
        "are leaves": [("outputs.append(made)", "outputs.append(seen)")],
        "come in their own turn": [
            (ZIP, "            for made, seen in zip(sum(past.made, ()), sum(past.seen, ())):\n"),
        ],
        "that is gone after the first backward": [
            (OUTPUTS, "        y.backward(gradient)\n        outputs, gradients = [], []\n"),
            (ALL, "        if outputs:\n    " + ALL),
        ],
        "leave an output out": [(IF, "                if True:\n")],
        "all gradients are there twice": [(OUTPUTS, "        y.backward(gradient, "
                                           "retain_graph=True)\n" + OUTPUTS)],
        "needs no retain_graph": [
            (OUTPUTS, "        y.backward(gradient, retain_graph=True)\n"
                      "        outputs, gradients = [], []\n"),
            (ALL, "        if outputs:\n    " + ALL),
        ],
    },
}  # fmt: skip


def names_in(table):
    return [(number, name) for number, of in table.items() for name in of]


LABS = {"8.14": "pipedream", "8.16": "sequence_slices"}


@pytest.mark.parametrize("number", LABS)
def test_the_solution_is_right(number, check_lab):
    verdict = check_lab(number, {})
    print(verdict)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "style"), names_in(RIGHT))
def test_right_answers_of_another_style(number, style, check_lab):
    verdict = check_lab(number, {LABS[number]: RIGHT[number][style]})
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "phrase"), names_in(WRONG))
def test_wrong_answers_are_told_their_misconception(number, phrase, check_lab):
    verdict = check_lab(number, {LABS[number]: WRONG[number][phrase]})
    print(verdict)
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


# ---- 8.15: in a cell ---------------------------------------------------------------------------

IN_PLACE = """
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        self.weights[self.version] = {
            name: (weight.detach() - self.lr * gradients[name]).requires_grad_()
            for name, weight in weights.items()
        }
""".lstrip()
NEW = "(weight.detach() - self.lr * gradients[name]).requires_grad_()"
BEFORE, AFTER = IN_PLACE[: IN_PLACE.index("        self.weights[")], ""
IT_WAS = [
    (IN_PLACE[len(BEFORE) :],
     "        for name, weight in weights.items():\n"
     "            weight.data -= self.lr * gradients[name]\n"
     "        self.weights[self.version] = weights\n"),
]  # fmt: skip
RIGHT_CELLS = {
    "a copy first": [
        (IN_PLACE[len(BEFORE) :],
         "        copy = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}\n"
         "        for name, weight in copy.items():\n"
         "            weight.data -= self.lr * gradients[name]\n"
         "        self.weights[self.version] = copy\n"),
    ],
    "torch.no_grad, and parameters": [
        (IN_PLACE[len(BEFORE) :],
         "        with torch.no_grad():\n"
         "            new = {n: torch.nn.Parameter(w - self.lr * gradients[n])\n"
         "                   for n, w in weights.items()}\n"
         "        self.weights = {self.version: new}\n"),
    ],
}  # fmt: skip
WRONG_CELLS = {
    "What stands in that memory": IT_WAS,
    "autograd now notices": [
        (IN_PLACE[len(BEFORE) :],
         "        with torch.no_grad():\n"
         "            for name, weight in weights.items():\n"
         "                weight -= self.lr * gradients[name]\n"
         "        self.weights[self.version] = weights\n"),
    ],
    "asked for gradients: .requires_grad_()": [(".requires_grad_()", "")],
    "Begin with weight.detach()": [("weight.detach()", "weight")],
    "two updates for one backward": [("        weights =", "        super().update(gradients)\n"
                                                          "        weights =")],
    "stay in self.weights": [(".pop(self.version)", "[self.version]")],
    "self.version counts them": [("        self.version += 1\n", "")],
}  # fmt: skip


@pytest.fixture
def check_cell(tmp_path, monkeypatch):
    def check_one(pairs, stashing_stage=()):
        for name, text in SOLVED.items():
            pairs_of_lab = stashing_stage if name == "pipedream" else ()
            put_lab(tmp_path, monkeypatch, name, changed(text, pairs_of_lab))
        program = changed(IN_PLACE, pairs)
        space = {"__name__": "__main__", "torch": torch, "pipedream": find_lab("pipedream")}
        exec(compile(program, "cell of 8.15", "exec"), space)
        linecache.cache["cell of 8.15"] = (1, None, program.splitlines(keepends=True), "cell")
        return check("8.15", space["InPlaceStage"])

    return check_one


def test_the_solution_of_the_cell_is_right(check_cell):
    verdict = check_cell([])
    print(verdict)
    assert verdict.passed, verdict


@pytest.mark.parametrize("style", RIGHT_CELLS)
def test_right_repairs_of_another_style(style, check_cell):
    verdict = check_cell(RIGHT_CELLS[style])
    assert verdict.passed, verdict


@pytest.mark.parametrize("phrase", WRONG_CELLS)
def test_wrong_repairs_are_told_what_is_wrong(phrase, check_cell):
    verdict = check_cell(WRONG_CELLS[phrase])
    print(verdict)
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


def test_a_fault_of_the_lab_is_told_first(check_cell):
    verdict = check_cell([], WRONG["8.14"]["gradients of one version add up"])
    assert verdict.wrong.why == 'first: check("8.14")', verdict


FORGOTTEN_DETACH = "went on beyond x", "Begin with weight.detach()"


def test_pytorch_does_not_warn_of_what_a_check_tells_better(check_lab, check_cell, capsys):
    in_lab, in_cell = FORGOTTEN_DETACH
    assert in_lab in check_lab("8.14", {"pipedream": WRONG["8.14"][in_lab]}).wrong.why
    assert in_cell in check_cell(WRONG_CELLS[in_cell]).wrong.why
    printed = capsys.readouterr()
    assert "Warning" not in printed.out + printed.err


# ---- The checks themselves ---------------------------------------------------------------------

HOLES = {  # what stands in the learner's file in place of the solutions
    "8.14": [(STASH + DETACH + THROUGH, "        ...\n"),
             ("        " + POP + "\n" + COLLECT + CLEAR + "        return gradients\n",
              "        ...\n")],
    "8.16": [(TAKE + COLLECTED + ALL + "        return x.grad\n", "        ...\n")],
}  # fmt: skip


@pytest.mark.parametrize("number", HOLES)
def test_a_hole_is_refused_politely(number, check_lab):
    lab = LABS[number]
    verdict = check_lab(number, {lab: HOLES[number]}, solutions={lab: SOLVED[lab]})
    assert verdict.passed is None
    assert EXERCISES[number].name in str(verdict), verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_hints(number):
    assert 2 <= len(EXERCISES[number].hints) <= 4


def test_another_stage_is_told_first(check_lab):
    wrong = [("y.backward(gradient)\n        return x.grad", "y.backward(gradient)\n"
              "        return -x.grad")]  # fmt: skip
    assert 'first: check("8.6")' in check_lab("8.14", {"pipeline_parallel": wrong}).wrong.why


def test_another_pipeline_is_told_first(check_lab):
    wrong = [("self.send(y, action)", "self.send(-y, action)")]
    for number in LABS:
        verdict = check_lab(number, {"pipeline_parallel": wrong})
        assert 'First: check("8.7")' in verdict.wrong.why, verdict


def test_a_function_is_no_stage():
    verdict = check("8.15", lambda gradients: None)
    assert "it is to remain a class InPlaceStage" in verdict.wrong.why, verdict
