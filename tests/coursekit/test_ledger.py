"""The ledger: rows from executed records, their addresses, the two pages."""

import json
import re

import pytest
from helpers import ROOT

from coursekit.ledger import ledger as the_ledger
from coursekit.ledger.ledger import (
    DOCUMENTS,
    KINDS,
    Source,
    corrections,
    counts_of,
    kind_of,
    ledger,
    section_of,
    sources_of,
)
from coursekit.ledger.ledger_pages import corrections_body, ledger_body, write_ledger
from pedagogy_lib.basics.errors import LaunchError

STATEMENTS = 204  # of the documents
FEWEST_MEASURED = 165


@pytest.fixture(scope="module")
def rows():
    return ledger()


def entry(names, verdict="right", source="blog, “DDP”", **changed):
    parts = {
        "statement": "a < b",
        "source": source,
        "verdict": verdict,
        "found": "1.50 (section 2)",
    }
    return {"claims": names} | parts | {"evidence": "measured", "on_gpus": "nothing"} | changed


def record(path, *entries):
    """An executed part with these entries in its third cell."""
    cells = [
        {"cell_type": "markdown", "source": ["# 02x · A part\n", "text"]},
        {"cell_type": "markdown", "source": ["## 2 · The second\n"]},
        {"cell_type": "code", "source": [], "outputs": [{"metadata": {"claims": [*entries]}}]},
    ]
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return path


def test_every_statement_has_a_row_and_most_are_measured(rows):
    assert [row.name for row in rows] == [f"C{k:03}" for k in range(1, STATEMENTS + 1)]
    assert sum(row.evidence == "measured" for row in rows) >= FEWEST_MEASURED
    assert sum(sum(by.values()) for by in counts_of(rows).values()) == STATEMENTS


def test_a_row_tells_where_its_figure_stands(rows):
    for row in rows:
        assert row.found and row.on_gpus and row.sources, row
        named = re.search(r"\((?:[^()]*, )?section (\d+)", row.found)
        assert not named or row.section or "part 0" in row.found or "part 1" in row.found, row


def test_every_document_and_every_kind_occurs(rows):
    assert {source.document for row in rows for source in row.sources} == set(DOCUMENTS)
    assert set(KINDS) - {"not decided"} <= {row.kind for row in rows}


def test_a_record_gives_a_row_for_each_name(tmp_path):
    path = record(tmp_path / "02x_a_part.ipynb", entry(["C002", "C001"]), entry([]))
    one, two = ledger([path])
    assert (one.name, two.name) == ("C001", "C002")
    assert (one.part, one.title, one.cell) == ("02x", "02x · A part", 3)
    assert one.section == "2 · The second"
    assert one.sources == (Source("blog", "“DDP”"),)


def test_missing_and_double_statements_are_told(tmp_path):
    first = record(tmp_path / "02x_a.ipynb", entry(["C001", "C004"]))
    with pytest.raises(LaunchError, match="no executed part has C002, C003"):
        ledger([first])
    second = record(tmp_path / "02y_b.ipynb", entry(["C001"]))
    with pytest.raises(LaunchError, match="C001 stands in more than one table: 02x_a, 02y_b"):
        ledger([first, second])
    (tmp_path / "02y_b.ipynb").write_text(first.read_text().replace(', "evidence"', ', "other"'))
    with pytest.raises(LaunchError, match="C001 in part 02y_b does not say what"):
        ledger([tmp_path / "02y_b.ipynb"])


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ("right", "right"),
        ("right for large tensors", "right on a condition"),
        ("about right", "right on a condition"),
        ("they contradict each other", "contradiction"),
        ("wrong over Gloo", "wrong"),
        ("depends on overlap; its premise is wrong", "depends"),
        ("imprecise, by its documentation", "imprecise"),
        ("cannot tell here", "not decided"),
    ],
)
def test_the_kind_of_a_verdict_is_in_its_first_words(verdict, kind):
    assert kind_of(verdict) == kind


def test_other_verdicts_and_documents_are_refused():
    with pytest.raises(LaunchError, match="a verdict begins with right, "):
        kind_of("fits, wrong label")
    with pytest.raises(LaunchError, match="a source begins with a document's name"):
        sources_of("a tweet, “DDP”")


def test_places_of_several_documents():
    text = "CS 229S, “All-reduce; rings”; web page, “DDP”, “FSDP” (right); handwritten notes"
    assert sources_of(text) == (
        Source("CS 229S", "“All-reduce; rings”"),
        Source("web page", "“DDP”, “FSDP”", True),
        Source("handwritten notes", ""),
    )


def test_a_section_of_another_part_is_no_section_of_this_one():
    headings = ["1 · One", "2 · Two"]
    assert section_of("3 MB (section 2, table)", headings) == "2 · Two"
    assert section_of("3 MB (part 06c, section 2)", headings) == ""
    assert section_of("3 MB", headings) == ""


def test_who_has_it_right_is_not_corrected(tmp_path):
    source = "blog, “DDP”; web note, “DDP” (right)"
    path = record(
        tmp_path / "02x_a.ipynb", entry(["C001"], "wrong", source), entry(["C002"], "right", source)
    )
    found = corrections(ledger([path]))
    assert [row.name for _, row in found["blog"]] == ["C001"]
    assert not found["web note"]


def test_the_pages_show_texts_as_texts(tmp_path):
    path = record(tmp_path / "02x_a.ipynb", entry(["C001"], "wrong"))
    rows = ledger([path])
    for page in (ledger_body(rows, lambda row: "there"), corrections_body(rows, lambda row: "x")):
        assert "a &lt; b" in page and "a < b" not in page and "$" not in page
    assert (
        '<a href="there">02x · A part</a>, section 2 · The second (table in cell 3)'
        in ledger_body(rows, lambda row: "there")
    )


def test_both_pages_are_written(tmp_path, rows, monkeypatch):
    monkeypatch.setattr("coursekit.ledger.ledger_pages.execute_what_is_missing", lambda: None)
    index, changes = write_ledger(tmp_path / "ledger")
    page = index.read_text(encoding="utf-8")
    assert page.count("<tr id=") == len(rows) and "https://" not in page
    for href in set(re.findall(r'href="([^"#]+)"', page + changes.read_text(encoding="utf-8"))):
        is_page = (index.parent / href).exists()
        assert is_page or (ROOT / href[3:]).exists(), href


def test_what_is_not_current_is_executed_first(monkeypatch, capsys):
    called = []
    monkeypatch.setattr(the_ledger, "renew_records", lambda force: called.append(force))
    monkeypatch.setattr(the_ledger, "record_is_current", lambda source: "02_" not in source.name)
    the_ledger.execute_what_is_missing()
    assert called == [False] and "1 part to execute: 02_collectives" in capsys.readouterr().out
