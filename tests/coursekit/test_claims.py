"""Statements of the documents in a part: data, and a table."""

import pytest

from pedagogy_lib import LaunchError, put_to_the_test


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "put_to_the_test() takes a text, not None"),
        ("a | b | c | d", "put_to_the_test() takes lines that begin with `- `"),
        ("- a | b | c", "a statement has four parts between `|`, or five; this one has 3"),
    ],
)
def test_statements_without_their_parts_get_one_sentence(text, sentence):
    with pytest.raises(LaunchError) as told:
        put_to_the_test(text)
    assert str(told.value).startswith(sentence)


def test_statements_are_folded_under_some_words():
    table = put_to_the_test("\n- a | b | c | d", fold="ZeRO <and> FSDP")
    page = table._repr_html_()
    assert page.startswith("<details") and "ZeRO &lt;and&gt; FSDP</summary>" in page
    assert "<td" in page and repr(table).startswith("ZeRO <and> FSDP\nthey say")
    with pytest.raises(LaunchError, match="folded under some words"):
        put_to_the_test("\n- a | b | c | d", fold=3)


def entries(count, first=0) -> str:
    return "".join(f"- [C{k:03}] s{k} | book | right | seen\n" for k in range(first, first + count))


def test_statements_are_data_too():
    claims = put_to_the_test(
        "- [C001, C002] a | b | c | d\n- e | f | g\n  h | i", "- j | k | l | m"
    )
    data, metadata = claims._repr_mimebundle_()
    assert data == {"text/plain": repr(claims), "text/html": claims._repr_html_()}
    assert [one["claims"] for one in metadata["claims"]] == [["C001", "C002"], [], []]
    assert metadata["claims"][1] == {
        "claims": [], "statement": "e", "source": "f", "verdict": "g h", "found": "i"
    }  # fmt: skip
    assert "C001" not in repr(claims) and "C001" not in data["text/html"]


def test_what_a_verdict_rests_on_is_kept_and_not_shown():
    claims = put_to_the_test("- [C001] a | b | c | d | measured: NCCL may take\n  a tree")
    _, metadata = claims._repr_mimebundle_()
    (one,) = metadata["claims"]
    assert (one["evidence"], one["on_gpus"]) == ("measured", "NCCL may take a tree")
    assert "tree" not in repr(claims) and "tree" not in claims._repr_html_()


@pytest.mark.parametrize("fifth", ["measured", "measured:", "guessed: so", "", "measured: a | b"])
def test_other_fifth_parts_are_refused(fifth):
    with pytest.raises(LaunchError, match=r"fifth part is measured or|four parts between"):
        put_to_the_test(f"- [C001] a | b | c | d | {fifth}")


def test_most_statements_are_folded():
    page = put_to_the_test(entries(8), entries(3, 8))._repr_html_()
    shown, others = page.split("<details")
    assert shown.count("<tr>") == 1 + 8 and others.count("<tr>") == 1 + 3
    assert "3 other statements" in others and "s10" in others
    with pytest.raises(LaunchError, match=r"shows 9 statements.*at most 8"):
        put_to_the_test(entries(9), entries(1, 9))
