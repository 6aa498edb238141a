"""Which answers are shown side by side: those that were retyped, and not those that are right."""

import ast
from itertools import groupby

import pytest
from answer_files import all_answers
from exercise_names import EX
from results_of_class import entries, find_answers
from test_pages import answer, words

from classroom.pages import side_by_side, similarity, write
from classroom.pages.tokens import names_defined_in, tokens_of
from coursekit.check_runner import chapters_with_checks

RIGHT = [one for one in all_answers() if one.kind == "right"]
QUICK = ("2", "8")  # chapters; the others are left to `make test-all`
CHAPTERS = [
    pytest.param(chapter, marks=[pytest.mark.deep] * (chapter not in QUICK))
    for chapter in chapters_with_checks()
    if any(one.exercise.number.startswith(f"{chapter}.") for one in RIGHT)
]
LONG = similarity.LEAST_SHARED + 10  # pieces of one's own: then a copy has to be found


def entry_of(exercise) -> dict:
    """Its lab, or the part of the course that asks it."""
    chapter = exercise.number.split(".")[0]
    return next(one for one in entries(chapter) if one["number"] == exercise.number)


def retype_program(source: str, name: str) -> str:
    """The same program with other names and layout, types, a docstring and a line that prints."""
    tree = ast.parse(source)
    own = sorted(names_defined_in(tree) - {name})
    other = {name: f"my_{number}" for number, name in enumerate(own)}
    for node in ast.walk(tree):
        for field in ("id", "arg", "name"):
            if getattr(node, field, None) in other:
                setattr(node, field, other[getattr(node, field)])
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        function.body[:0] = ast.parse('"""My own answer."""\nprint("it begins")').body
    return ast.unparse(ast.fix_missing_locations(tree))


def group_by_exercise(chapter) -> list[tuple[str, list]]:
    """The right answers to each exercise of a chapter."""
    groups = groupby(RIGHT, key=lambda one: one.exercise)
    return [(one, list(group)) for one, group in groups if one.number.split(".")[0] == chapter]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_two_right_answers_are_shown(chapter):
    """636 pairs in all, of answers that were written to differ: a class's may be more alike."""
    for exercise, answers in group_by_exercise(chapter):
        known = side_by_side.find_course_pieces(entry_of(exercise))
        found = similarity.pairs([one.program for one in answers], known)
        assert found == [], exercise.number


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_retyped_answer_is_found(chapter):
    """Each right answer that has enough of its own, beside a copy and all other right ones."""
    tried = 0
    for exercise, answers in group_by_exercise(chapter):
        known = side_by_side.find_course_pieces(entry_of(exercise))
        sources = [one.program for one in answers]
        for place, source in enumerate(sources):
            everything = [*sources, retype_program(source, exercise.name)]
            own = similarity.own_pieces(list(map(similarity.Program, everything)), known)
            if len(own[place]) >= LONG:
                (pair,) = similarity.pairs(everything, known)
                assert pair.places == (place, len(sources))
                tried += 1
    assert tried


def test_names_layout_types_and_comments_do_not_count():
    ours = "def f(x: int) -> int:\n    '''Doc.'''\n    y: int = x + 1  # one\n    return g(y)\n"
    theirs = "import os\ndef f(value):\n  total = (value +\n    1)\n  return g(total)"
    assert [one for one, _ in tokens_of(ours)] == [one for one, _ in tokens_of(theirs)]
    other = "def f(x):\n    y = x + 1\n    return h(y)"
    assert tokens_of(ours) != tokens_of(other)
    assert tokens_of("def f(:") == tokens_of("\x00") == tokens_of("(" * 5000) == []


def test_what_many_have_written_says_nothing():
    source = find_answers(EX.all_reduce_halving_doubling, "right")[0].program
    assert len(similarity.pairs([source] * 2, set())) == 1
    assert similarity.pairs([source] * (similarity.FEW + 1), set()) == []
    assert similarity.pairs([source] * 2, similarity.pieces_of(source)) == []


def test_each_of_several_is_shown_once():
    pairs = [similarity.Pair(places, 1.0, 30, (set(), set()))
             for places in ((0, 1), (0, 2), (1, 2), (4, 5), (2, 3), (3, 5), (1, 4))]  # fmt: skip
    kept = [pair.places for pair in similarity.one_for_each(pairs)]
    assert kept == [(0, 1), (0, 2), (4, 5), (2, 3), (3, 5)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    exercise = entry_of(find_answers(EX.all_reduce_halving_doubling, "right")[0].exercise)
    first, *others = (one.program for one in find_answers(EX.all_reduce_halving_doubling, "right"))
    sources = {"Ada": first, "Ben": retype_program(first, exercise["name"]), "Cem": others[0],
               "Dan": "", "Eva": "def all_reduce(:"}  # fmt: skip
    students = [
        {"student": name, "from": "", "problems": [],
         "answers": {EX.all_reduce_halving_doubling: answer("right", 1.0, source=source)}}
        for name, source in sources.items()
    ]  # fmt: skip
    unknown = {**exercise, "number": "99.1", "lab": "not_there"}
    write({"title": "t", "version": "", "exercises": [exercise, unknown], "students": students},
          folder)  # fmt: skip
    return (folder / "similar.html").read_text()


def test_the_page_shows_both_sides_and_marks_the_same_lines(page):
    assert page.count('class="sides"') == 1
    ours, theirs = page.split('class="sides"')[1].split("<pre")[1:]
    assert f'href="students/Ada.html#ex-{EX.all_reduce_halving_doubling}"' in page.split("<pre")[0]
    assert f'href="students/Ben.html#ex-{EX.all_reduce_halving_doubling}"' in ours
    for side in (ours, theirs):
        assert side.count("<mark") > 10
    assert "my_" in theirs and "my_" not in ours
    assert '<mark class="line">' not in theirs.split("it begins")[0]


def test_the_page_says_what_it_cannot_tell(page):
    told = words(page)
    assert "It is no verdict, and no part of a score." in told
    assert "It cannot tell who wrote an answer first" in told
    assert "That a pair is not here proves nothing." in told
    assert "Not compared, as the course has no solution of it here: 99.1." in told
