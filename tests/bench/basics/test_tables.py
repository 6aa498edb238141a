"""Tables: words at the left, numbers at the right, also where a page drops styles."""

import re

import pytest

from pedagogy_lib import LaunchError, Table


def sides(table) -> list[list[str]]:
    """What the attributes of each row's cells say, the heads' first."""
    rows = re.findall(r"<tr>(.*?)</tr>", table._repr_html_())
    return [re.findall(r" align=(\w+)", row) for row in rows]


@pytest.mark.parametrize(
    "number", ["0", "1.50", "6,000,000", "-3", "4 kB", "12.5 %", "1e-05", "3 s"]
)
def test_columns_of_numbers_stand_at_the_right(number):
    table = Table(["name", "found"], [["a", number], ["b", "7"]])
    assert sides(table) == [["left", "right"]] * 3


@pytest.mark.parametrize("text", ["", "7 or 8", "two", "[3, 4]", "1 of 2", "True"])
def test_columns_with_words_stand_at_the_left(text):
    assert sides(Table(["found"], [["7"], [text]])) == [["left"]] * 3


def test_styles_say_the_same_as_the_attributes():
    page = Table(["rank", "what"], [[0, "x"]])._repr_html_()
    found = re.findall(r"align=(\w+)(?: valign=top)? style=text-align:(\w+)", page)
    assert len(found) == 4 and all(side == style for side, style in found)


def test_rows_may_be_missing():
    assert sides(Table(["a", "b"], [])) == [["left", "left"]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["a", "b"], [["1"]]), "a row has 1 values under 2 heads: ['1']"),
        ((["a"], [["1", "2"]]), "a row has 2 values under 1 heads: ['1', '2']"),
        ((["a"], [3]), "a table takes lists of values, not 3"),
        ((["a"], ["abc"]), "a table takes lists of values, not 'abc'"),
        ((["a"], None), "a table takes lists of values, not None"),
        ((None, []), "a table takes lists of values, not None"),
        ((["a"], [[1]], "", "", [("both", 2)]), "the groups have [2] columns"),
    ],
)
def test_what_is_no_table_gets_one_sentence(arguments, sentence):
    with pytest.raises(LaunchError) as told:
        Table(*arguments)
    assert str(told.value).startswith(sentence)


def test_a_head_without_words_is_no_head():
    assert Table(["", "b"], [["1", "2"]])._repr_html_().count("<th ") == 1


def test_groups_stand_over_their_columns():
    page = Table(["a", "b", "c"], [[1, 2, 3]], groups=[("", 1), ("both", 2)])._repr_html_()
    assert "<th colspan=2 align=center" in page


def test_what_stands_in_cells_is_text():
    assert "&lt;b&gt;" in Table(["<b>"], [["<i>"]])._repr_html_()
