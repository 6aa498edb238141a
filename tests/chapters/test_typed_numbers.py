"""A number that is typed in a sentence is not one that another machine would measure differently.

A time in prose is a parameter: a number of the part's code, or of a lab behind it. Bytes, shares
and factors may also be printed by the part's record. What follows from arithmetic is told with it:
in a formula, or beside an operator. A paragraph with a link names its source, and a statement of an
exercise makes up its numbers.
"""

import math
import re
from functools import cache
from operator import attrgetter

import nbformat
import pytest
from each import repeat_for_each

from coursekit.building import build
from coursekit.building.chapter_texts import paths
from coursekit.building.record_inputs import input_files

PARTS = build.sources()
UNIT = r"ms|µs|s|seconds?|minutes?|hours?|[kMGT]B(?:/s)?|%|×|times|[TG]FLOP(?:/s|S)"
TYPED = re.compile(rf"(?<![\w.,−-])(\d[\d,]*(?:\.\d+)?) ?({UNIT})(?!\w)")
NUMBER = re.compile(r"(?<![\w.])\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?")
QUOTED = re.compile(r"```.*?```|`[^`]*`|\$\$?[^$]*\$\$?", re.DOTALL)
PARAGRAPH = re.compile(r"\n\n|\n(?=\* |\d+\. |\|)")
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*\[(~])")
TOLD = re.compile(  # with its arithmetic, as an example, or as an assumption
    r"\d\S* ?[=·×/+−] ?\d|[=·/+−] ?\d|[Ff]or example|^Say |^Suppose |assume"
)
NOT_HERE = re.compile(r"\]\(|H100|On GPUs")  # a source, or another machine
IS_TIME = re.compile(r"(ms|µs|s|seconds?|minutes?|hours?)\b")
SCALES = [10.0**power for power in (-9, -6, -3, 0, 2, 3, 6)]
EXPLAINED = {  # what stands behind a number that neither the code nor the record has
    "00": dict.fromkeys(re.findall(r"\d+ (?:minutes|hours)", paths()), "the sum over some parts"),
    "00c": {"0.0015 MB": "1.5 X of the formula, for a parameter that the learner sets"},
    "02d": {"25 ms": "1 MB at the card's speed"},
    "02f": {"0.6 µs": "NCCL's source, linked before", "92 %": "NCCL's source, linked before"},
    "02g": {"240 ms": "6 MB at 25 MB/s"},
    "04g": {"0.8 s": "a parameter of the check's case"},
    "05": {"14 GB": "7 billion times 2 bytes"},
    "05d": {
        "8.6 GB": "32 heads times 8,192 squared times 4 bytes",
        "4.3 GB": "half of it",
        "137 GB": "32 times that",
    },
    "05g": dict.fromkeys(["154 GB", "45 GB", "47 GB"], "test_computed_sentences.py"),
    "06c": {"14 GB": "7 billion times 2 bytes"},
    "07g": {"240 ms": "3 MB at 12.5 MB/s"},
    "08": {"0.66 s": "11 times 60 ms", "1.92 s": "8 times 4 times 60 ms"},
    "09f": {"1.4 MB": "eleven tensors of 512 places, 64 numbers and 4 bytes"},
}


def value_of(number: str) -> float:
    return float(re.sub("[,_]", "", number))


def numbers_in(text: str) -> set[float]:
    return set(map(value_of, NUMBER.findall(text)))


def is_chosen(typed: str, numbers: set[float]) -> bool:
    """Return whether a number is one of these, perhaps in another unit: 20 ms for 0.02."""
    return any(math.isclose(x * scale, value_of(typed)) for x in numbers for scale in SCALES)


def is_printed(typed: str, unit: str, numbers: set[float]) -> bool:
    """Return whether a number is one of these, rounded to the digits that are typed."""
    value, digits = value_of(typed), len(typed.partition(".")[2])
    scales = (1, 1e-3, 1e-6, 1e-9) if "B" in unit else (1,)
    return any(round(x * scale, digits) == value for x in numbers for scale in scales)


def typed_numbers(cells):
    """Yield each (number, unit, sentence) of the prose, except in statements of exercises."""
    in_statement = False
    for cell in cells:
        in_statement = cell.cell_type == "markdown" and (
            in_statement or cell.source.lstrip().startswith("### Exercise")
        )
        if cell.cell_type == "code" or in_statement:
            continue
        for paragraph in PARAGRAPH.split(QUOTED.sub("~", cell.source)):
            for sentence in SENTENCE.split(" ".join(paragraph.split())):
                if not (NOT_HERE.search(paragraph) or TOLD.search(sentence)):
                    yield from ((*found, sentence) for found in TYPED.findall(sentence))


def unexplained(cells, chosen: set[float], printed: set[float]) -> list[str]:
    """Return the numbers in prose that are neither chosen nor printed, each with its sentence.

    chosen   numbers of the code
    printed  numbers of the outputs
    """
    return [
        f"{number} {unit}: {sentence}"
        for number, unit, sentence in typed_numbers(cells)
        if not is_chosen(number, chosen)
        and (IS_TIME.match(unit) or not is_printed(number, unit, printed))
    ]


def chosen_in(cells) -> set[float]:
    code = "\n\n".join(cell.source for cell in cells if cell.cell_type == "code")
    labs = (path for path in input_files(code, build.ROOT) if path.parent.name == "labs")
    return numbers_in("\n".join([code, *(path.read_text(encoding="utf-8") for path in labs)]))


def printed_in(record) -> set[float]:
    outputs = [output for cell in record.cells for output in cell.get("outputs", [])]
    texts = [output.get("text") or output.get("data", {}).get("text/plain") for output in outputs]
    return numbers_in(str([texts, [output.get("metadata") for output in outputs]]))


@cache
def solved_cells(source) -> list:
    return build.make_notebook(build.keep_answers(build.text_of(source)), source.stem).cells


def unexplained_in(source, printed: set[float]) -> list[str]:
    explained = EXPLAINED.get(source.stem.partition("_")[0], {})
    left = unexplained(solved_cells(source), chosen_in(solved_cells(source)), printed)
    return [one for one in left if one.partition(":")[0] not in explained]


@repeat_for_each("source", PARTS, attrgetter("stem"))
def test_a_typed_time_is_a_parameter_and_not_a_measurement(source):
    left = unexplained_in(source, printed=set())
    assert not [one for one in left if IS_TIME.match(one.partition(" ")[2])]


@pytest.mark.deep
def test_other_typed_numbers_are_printed_by_the_part_or_chosen_in_it():
    outdated = [source.stem for source in PARTS if not build.record_is_current(source)]
    executed = [source for source in PARTS if source.stem not in outdated]
    told = {
        source.stem: left
        for source in executed
        if (left := unexplained_in(source, printed_in(nbformat.read(build.record_of(source), 4))))
    }
    assert not told
    if outdated:
        pytest.skip(f"run `make build`: {len(outdated)} records are older than their code")


@repeat_for_each("name, number", [(part, one) for part in EXPLAINED for one in EXPLAINED[part]])
def test_what_is_explained_is_still_typed(name, number):
    (source,) = (source for source in PARTS if source.stem.startswith(f"{name}_"))
    assert number in {f"{n} {unit}" for n, unit, _ in typed_numbers(solved_cells(source))}


@pytest.mark.parametrize(
    ("text", "code", "left"),
    [
        ("A step takes 31 ms.", "", ["31 ms"]),
        ("A step takes 31 ms.", "launch(step, timeout=0.031)", []),
        ("It printed 31 ms.", 'print("31 ms")', []),
        ("It is 41 % longer.", "", []),
        ("It is 43 % longer, and sends 2.1 MB.", "", ["43 %"]),
        ("At 25 MB/s, 6 MB / 25 MB/s = 240 ms.", "", []),
        ("[They](https://arxiv.org) took 31 ms.\n\nIt takes 32 s.", "", ["32 s"]),
        ("### Exercise 1.1 · Time\nA step takes 31 ms.", "", []),
    ],
)
def test_a_number_that_nothing_stands_behind_is_noticed(text, code, left):
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell(code)]
    found = unexplained(cells, numbers_in(code), printed=numbers_in("41.42%, 2_100_000 bytes"))
    assert [one.partition(":")[0] for one in found] == left
