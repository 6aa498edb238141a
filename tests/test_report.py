"""The machine report: a page that stands alone, and clear words for bad parameters."""

import re

import pytest

from pedagogy_lib import LaunchError
from pedagogy_lib.__main__ import main
from pedagogy_lib.report import read_settings, write_report

DEFAULTS = {"world_sizes": [2, 4], "megabytes": [0.1, 1.0], "repeats": 5}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "machine.html"
    settings = ["world_sizes=[2]", "megabytes=[0.01, 1.0]", "repeats=1"]
    return write_report(settings, page=path).read_text()


def test_the_report_shows_results_and_no_code(page):
    assert "all_reduce" in page
    assert "Time of one all-reduce" in page
    assert "import torch" not in page


def test_the_report_compares_bytes_with_theory(page):
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    table = {row[0]: [float(cell) for cell in row[2:]] for row in cells if len(row) == 4}
    assert table["all_reduce"] == pytest.approx([1.0, 1.0], abs=0.005)
    assert table["all_gather"] == pytest.approx([0.5, 0.5], abs=0.005)


def test_every_picture_says_what_it_shows(page):
    assert re.findall(r'<img alt="Time of one all-reduce', page)


def test_the_report_fetches_nothing(page):
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?:", page)
    assert not re.findall(r"import\(?[^)\n]*https?://", page)


def test_settings_are_read_as_their_defaults_are():
    settings = ["world_sizes=[8]", "megabytes=[1]", "repeats=2"]
    expected = {"world_sizes": [8], "megabytes": [1], "repeats": 2}
    assert read_settings(settings, DEFAULTS) == expected


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("worldsizes=[2]", "no parameter 'worldsizes': the report has world_sizes"),
        ("world_sizes=2", r"world_sizes is given like world_sizes=\[2, 4\], not"),
        ("world_sizes=[]", "world_sizes is given like"),
        ("world_sizes=[2, 'x']", "world_sizes is given like"),
        ("world_sizes=[2.5]", "world_sizes is given like"),
        ("world_sizes=[0]", "world_sizes is given like"),
        ("repeats=True", "repeats is given like repeats=5"),
        ("repeats", "repeats is given like repeats=5"),
        ("repeats=__import__('os')", "repeats is given like repeats=5"),
    ],
)
def test_a_bad_setting_gets_one_clear_sentence(setting, says):
    with pytest.raises(LaunchError, match=says):
        read_settings([setting], DEFAULTS)


def test_a_setting_that_fails_while_measuring_says_why(tmp_path):
    with pytest.raises(LaunchError, match="world_size is a whole number from 1 to 256"):
        write_report(["world_sizes=[1000]"], page=tmp_path / "machine.html")


def test_the_command_line_reports_and_fails_politely(capsys):
    assert main(["report", "nope=1"]) == 2
    assert capsys.readouterr().err == (
        "no parameter 'nope': the report has world_sizes, megabytes, repeats\n"
    )
