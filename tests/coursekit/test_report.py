"""The machine report: a page that stands alone, and clear words for bad parameters."""

import datetime
import os
import re
import subprocess
import sys

import pytest
import torch
from bs4 import BeautifulSoup
from helpers import ROOT

from coursekit.report import add_gpu_world_size, read_settings, straight_line, write_report
from pedagogy_lib import LaunchError
from pedagogy_lib.__main__ import main

DEFAULTS = {"world_sizes": [2, 4], "megabytes": [0.1, 1.0], "repeats": 5}


@pytest.fixture(scope="module")
def page_and_errors(tmp_path_factory):
    """The page, and what a person sees meanwhile; the kernel writes there too."""
    path = tmp_path_factory.mktemp("report") / "machine.html"
    settings = ["world_sizes=[2]", "megabytes=[0.01, 1.0]", "repeats=1", "students=2"]
    program = "import sys; from pathlib import Path; "
    program += "from coursekit.report import write_report; "
    program += "write_report(sys.argv[2:], page=Path(sys.argv[1]))"
    command = [sys.executable, "-c", program, path, *settings]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return path.read_text(), done.stderr


@pytest.fixture(scope="module")
def page(page_and_errors):
    return page_and_errors[0]


@pytest.mark.deep
def test_the_report_shows_results_and_no_code(page):
    assert "all_reduce" in page
    assert "Time of one all-reduce" in page
    assert "import torch" not in page


def tables(page):
    """Every table as rows of texts, in the order of the page."""
    found = BeautifulSoup(page, "html.parser").select("table")
    return [[[c.get_text() for c in row.select("td, th")] for row in t("tr")] for t in found]


@pytest.mark.deep
def test_the_report_compares_bytes_with_theory_whatever_sizes_are_timed(page):
    groups, heads, *rows = tables(page)[2]
    assert groups == ["", "2 ranks, Gloo, measured"]
    assert heads == ["collective", "sent", "theory"]
    found = {name: [float(cell) for cell in cells] for name, *cells in rows}
    assert found["all_reduce"] == found["broadcast"] == [1.0, 1.0]
    assert found["all_gather"] == [0.5, 0.5]


@pytest.mark.deep
def test_the_report_says_when_where_and_with_which_parameters(page):
    facts = dict(tables(page)[0])
    days = [datetime.date.today() - datetime.timedelta(ago) for ago in (0, 1)]
    assert any(str(day.year) in facts["date"] for day in days)
    assert f"{os.cpu_count()} cores" in facts["CPU"]
    assert facts["parameters"] == "world_sizes=[2] · megabytes=[0.01, 1.0] · repeats=1 · students=2"
    assert facts["2 ranks"] == "Gloo on the CPU"


@pytest.mark.deep
def test_the_page_has_a_title(page):
    title = BeautifulSoup(page, "html.parser").title.get_text()
    assert title == "What this machine does with torch.distributed"


@pytest.mark.deep
def test_the_kernel_has_no_connection_to_warn_of(page_and_errors):
    assert "encryption" not in page_and_errors[1]


@pytest.mark.deep
def test_more_ranks_than_cores_are_told(page):
    crowded = f"More ranks than cores take turns: 2 ranks on {os.cpu_count()} cores."
    assert (crowded in page) == (os.cpu_count() < 2)


def test_a_straight_line_is_found():
    sizes = [1e4, 1e6, 1e8]
    latency, bandwidth, error = straight_line(sizes, [1e-4 + size / 2e9 for size in sizes])
    assert (latency, bandwidth) == pytest.approx((1e-4, 2e9))
    assert error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("sizes", "seconds"), [([1e6], [0.1]), ([1e4, 1e6], [0.2, 0.1])])
def test_where_there_is_no_line_none_is_told(sizes, seconds):
    assert straight_line(sizes, seconds) == (None, None, None)


@pytest.mark.parametrize(("gpus", "expected"), [(0, [2, 4]), (4, [2, 4]), (8, [2, 4, 8])])
def test_all_gpus_are_measured(monkeypatch, gpus, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert add_gpu_world_size([2, 4]) == expected


@pytest.mark.deep
def test_every_picture_says_what_it_shows(page):
    assert re.findall(r'<img alt="Time of one all-reduce', page)


@pytest.mark.deep
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
        ("world_sizes=2", r"world_sizes is a list of positive whole numbers, for .*, not 2$"),
        ("world_sizes=[]", "world_sizes is a list"),
        ("world_sizes=[2, 'x']", "world_sizes is a list"),
        ("world_sizes=[2.5]", "world_sizes is a list of positive whole numbers"),
        ("world_sizes=[0]", "world_sizes is a list of positive whole numbers"),
        ("megabytes=[-1]", "megabytes is a list of positive numbers"),
        ("repeats=0", "repeats is a positive whole number, for example repeats=5, not 0"),
        ("repeats=True", "repeats is a positive whole number"),
        ("repeats", "repeats is a positive whole number, for example repeats=5, not nothing"),
        ("repeats=__import__('os')", "repeats is a positive whole number"),
        ("world_sizes=[2,", r"without spaces, for example world_sizes=\[2,4\], or in quotes"),
    ],
)
def test_a_bad_setting_gets_one_clear_sentence(setting, says):
    with pytest.raises(LaunchError, match=says):
        read_settings([setting], DEFAULTS)


def test_a_setting_given_twice_is_refused():
    with pytest.raises(LaunchError, match="repeats is given twice: leave one out"):
        read_settings(["repeats=2", "repeats=3"], DEFAULTS)


@pytest.mark.deep
def test_a_tensor_of_less_than_one_number_is_refused(tmp_path):
    with pytest.raises(LaunchError, match=r"megabytes start at 0\.000004, which is one number"):
        write_report(["megabytes=[0.000001]"], page=tmp_path / "machine.html")


@pytest.mark.deep
def test_a_setting_that_fails_while_measuring_says_why(tmp_path):
    with pytest.raises(LaunchError, match="world_size is a whole number from 1 to 256"):
        write_report(["world_sizes=[1000]"], page=tmp_path / "machine.html")


def test_the_command_line_reports_and_fails_politely(capsys):
    assert main(["report", "nope=1"]) == 2
    assert capsys.readouterr().err == (
        "no parameter 'nope': the report has world_sizes, megabytes, repeats, students\n"
    )


@pytest.mark.deep
def test_the_report_says_what_a_class_needs(page):
    heads, *rows = tables(page)[-1]
    assert heads == ["", "this machine"]
    told = dict(rows)
    assert "a launch, 2 at the same time" in told
    if sys.platform == "linux":
        names = "a notebook with 4 ranks", "memory that is free now"
        memory, free = (float(told[name].split()[0]) for name in names)
        fit = int(told["so many notebooks with ranks fit into it"])
        assert 0.05 < memory < 4
        assert fit == pytest.approx(free / memory, rel=0.15)
