"""The course as a person sees it: JupyterLab in Chromium, with a mouse and a keyboard."""

import hashlib
import json
import shutil

import needs
import pytest
from browser import TOKEN, Lab, Notebook, chromium
from exercise_names import EX
from helpers import wait_until

pytestmark = [
    pytest.mark.slow,
    needs.mark("Chromium", "playwright"),
]

IMPORTS = """
# %%
import sys, torch, torch.distributed as dist
from pedagogy_lib import check, explore, launch, plot_bars, predict, progress, Table
"""
PREDICTION = """
# %%
guess = predict("Sent by each rank", unit="MB")

# %%
guess.compare(theory=6, measured=6.002, kind="communication")

# %%
progress("00")
"""
COURSE = """
# %%
progress()
"""
CONTROLS = """
# %%
def draw(ranks, way, chunks):
    if ranks > 4:
        raise ValueError("at most 4 ranks have room here")
    return plot_bars(["a"] * ranks, {way: [chunks] * ranks}, "MB", title=f"{ranks} {way} {chunks}")

explore(draw, ranks=[2, 4, 8], way=["ring", "tree"], chunks=[1, 2],
        labels={"ranks": "ranks", "way": "algorithm", "chunks": "chunks on each rank"},
        no_effect=lambda way, **others: {"chunks"} if way == "tree" else set())
"""
FILM = """
# %%
explore(lambda step: plot_bars(["a"], {"sent": [step]}, "MB", title=f"Step {step}"),
        step=[1, 2, 3, 4, 5])
"""
VERDICT = """
# %%
check("0.1", lambda node, local_rank, per_node: node + local_rank)
"""
OTHER_VERDICTS = f"""
# %%
def row_layer(x, weight, bias):  # as it was given
    y = x @ weight.T + bias
    dist.all_reduce(y)
    return y

check("{EX.row_layer}", row_layer)

# %%
check("{EX.broadcast_tree}")
"""
HOLE = "...  # your code here"
LINE_HEIGHT = 15  # pixels, at least
FAILURES = """
# %%
sys.path.append("../labs")
import oops

def wait_for_ever():
    if dist.get_rank():
        dist.all_reduce(torch.ones(3))
    dist.recv(torch.ones(3), 1)

# %%
launch(wait_for_ever, world_size=2, timeout=600)

# %%
launch(oops.work, world_size=2)

# %%
Table(["rank", "says"], launch(lambda: [dist.get_rank(), "well"], world_size=2).values)
"""
OOPS = """import torch


def cut(x):
    return x.view(3, -1)


def work():
    return cut(torch.ones(4))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("course"))
    try:
        lab.await_answer()
        (lab.folder / "labs" / "oops.py").write_text(OOPS)
        yield lab
    finally:
        lab.end()


@pytest.fixture(params=["light"])
def notebook(lab, request):
    """A notebook in a page; `settings` of a test may change both."""
    looks = {"light": (False, 1200, 1), "dark": (True, 1100, 1), "small": (False, 1100, 1),
             "zoomed": (False, 600, 2)}  # fmt: skip
    dark, width, scale = looks[request.param]
    lab.settle(dark)
    with chromium(width, device_scale_factor=scale) as page:
        yield Notebook(page)
    lab.end_kernels()


def run_notebook(lab, notebook, *texts):
    """The notebook with these cells, run to its end."""
    lab.write("try", IMPORTS + "".join(texts))
    notebook.open(lab.address("try"))
    notebook.run_all()
    return notebook.page


def test_a_prediction_a_slider_and_a_verdict(lab, notebook):
    """The part that is tried each time; everything else is in `make test-all`."""
    page = run_notebook(lab, notebook, PREDICTION, CONTROLS, VERDICT)
    box = page.get_by_label("Predict Sent by each rank")
    box.fill("4")
    box.press("Enter")
    page.get_by_role("img", name="predicted 4 MB").wait_for()
    page.get_by_label("ranks", exact=True).press("ArrowRight")
    page.get_by_role("img", name="4 ring 1").wait_for()
    page.get_by_text("Hint 1 of").click()
    page.get_by_text("Hint 2 of").wait_for()
    notebook.assert_quiet()


@pytest.mark.deep
def test_a_prediction_is_typed_mistyped_and_withdrawn(lab, notebook):
    page = run_notebook(lab, notebook, PREDICTION)
    box = page.get_by_label("Predict Sent by each rank")
    page.get_by_role("img", name="no prediction").wait_for()
    box.fill("5,5")
    box.press("Tab")  # leaving the field is enough
    page.get_by_text("noted: 5.5 MB").wait_for()
    page.get_by_role("img", name="predicted 5.5 MB").wait_for()
    kept = lab.folder / "work" / ".predictions.json"
    assert 5.5 in json.loads(kept.read_text()).values()

    box.fill("about six")
    box.press("Enter")
    told = page.get_by_text("is not noted: write a number from 0 on")
    told.wait_for()
    assert box.get_attribute("aria-invalid") == "true"
    page.get_by_role("img", name="no prediction").wait_for()
    assert 5.5 not in json.loads(kept.read_text()).values()
    color = "element => getComputedStyle(element).color"
    assert told.evaluate(color) != page.locator(".course-question label").evaluate(color)

    box.fill("6")
    box.press("Enter")
    page.get_by_text("noted: 6 MB").wait_for()
    notebook.run(3)
    page.get_by_text("none of 1 prediction made · 1 typed after the measurement").wait_for()
    box.fill("")
    box.press("Enter")
    page.locator(".course-reply").get_by_text("no prediction", exact=True).wait_for()
    notebook.assert_quiet()


@pytest.mark.deep
def test_what_is_typed_while_a_cell_runs_counts_as_typed_before_its_measurement(lab, notebook):
    page = run_notebook(lab, notebook, PREDICTION, "# %%\nimport time; time.sleep(4)")
    for number in (4, 2, 3):  # the last cell takes its time, before the comparison
        notebook.run(number)
    box = page.get_by_label("Predict Sent by each rank")
    box.fill("5")
    box.press("Enter")
    page.get_by_text("noted when the cell that is running has ended").wait_for()
    page.get_by_text("noted: 5 MB").wait_for()
    page.get_by_role("img", name="predicted 5 MB").wait_for()
    notebook.run(3)
    page.get_by_text("1 of 1 prediction made, off by 17 %").wait_for()
    notebook.assert_quiet()


@pytest.mark.deep
def test_controls(lab, notebook):
    page = run_notebook(lab, notebook, CONTROLS)
    page.get_by_role("img", name="2 ring 1").wait_for()
    slider = page.get_by_role("slider", name="ranks", exact=True)
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 6, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.get_by_role("img", name="4 ring 1").wait_for()

    # A value that is refused: the picture stays, and nothing jumps.
    picture = page.locator(".course-picture")
    before = picture.bounding_box()
    slider.press("End")
    page.get_by_text("at most 4 ranks have room here").wait_for()
    page.get_by_role("img", name="4 ring 1").wait_for()
    assert picture.bounding_box() == before

    slider.press("ArrowLeft")
    page.get_by_label("algorithm").select_option("tree")
    page.get_by_role("img", name="4 tree 1").wait_for()
    assert page.get_by_role("slider", name="chunks on each rank").is_disabled()
    notebook.assert_quiet()


@pytest.mark.deep
def test_a_film(lab, notebook):
    page = run_notebook(lab, notebook, FILM)
    page.get_by_role("img", name="Step 1.").wait_for()
    page.get_by_role("button", name="next").click()
    page.get_by_role("img", name="Step 2.").wait_for()
    slider = page.get_by_role("slider", name="step")
    slider.press("End")
    page.get_by_role("img", name="Step 5.").wait_for()
    slider.press("ArrowLeft")
    page.get_by_role("img", name="Step 4.").wait_for()
    slider.press("End")
    page.locator('button[aria-disabled="true"]', has_text="next").wait_for()
    slider.press("Home")
    page.locator('button[aria-disabled="true"]', has_text="back").wait_for()
    page.get_by_role("button", name="play").click()
    page.get_by_role("button", name="pause").wait_for()
    page.get_by_role("img", name="Step 5.").wait_for()
    page.get_by_role("button", name="play").wait_for()  # at its end it stops
    notebook.assert_quiet()


@pytest.fixture
def answer_that_raises(lab):
    """What a learner has written for exercise 2.3."""
    file = lab.folder / "labs" / "collectives.py"
    given = file.read_text()
    file.write_text(given.replace(HOLE, "raise RuntimeError('mine')", 1))
    yield
    file.write_text(given)


@pytest.mark.deep
def test_verdicts(lab, notebook, answer_that_raises):
    page = run_notebook(lab, notebook, VERDICT, OTHER_VERDICTS)
    first, second = notebook.cell(1), notebook.cell(2)
    assert first.get_by_text("✗ not yet").is_visible()
    assert not first.get_by_text("Hint 2 of").is_visible()
    first.get_by_text("Hint 1 of").click()
    assert first.get_by_text("Hint 2 of").is_visible()
    # The symptom of a bug that is to be found stands there; what it looks like, on demand.
    folded = second.locator("details", has_text="What this looks like").first
    diagnosis = folded.locator("div").first
    assert not diagnosis.is_visible()
    folded.locator("summary").first.click()
    assert diagnosis.is_visible()
    # The line is a link to the file.
    notebook.cell(3).get_by_role("link", name="./labs/collectives.py").first.click()
    page.locator(".jp-FileEditor").get_by_text("raise RuntimeError").wait_for()
    notebook.assert_quiet()


@pytest.mark.deep
def test_a_hang_is_stopped_and_an_error_leads_to_its_line(lab, notebook):
    lab.write("fail", IMPORTS + FAILURES)
    notebook.open(lab.address("fail"))
    page = notebook.page
    for number in (0, 1, 2):
        notebook.run(number)
    notebook.await_end_of(1)
    page.get_by_text("0 of 2 ranks have returned").wait_for()
    page.get_by_title("Interrupt the kernel").or_(
        page.get_by_label("Interrupt the kernel")
    ).first.click()
    notebook.await_end_of(2)
    told = notebook.cell(2).locator(".jp-OutputArea").inner_text()
    assert "rank 1: line 6 of a cell, in" in told and "dist.all_reduce(torch.ones(3))" in told, told

    notebook.run(3)
    notebook.await_end_of(3)
    told = notebook.cell(3).locator(".jp-OutputArea").inner_text()
    assert "./labs/oops.py:5" in told and "./labs/oops.py:9" in told, told
    notebook.cell(3).get_by_role("link", name="./labs/oops.py:5").first.click()
    page.locator(".jp-FileEditor").get_by_text("return x.view(3, -1)").wait_for()
    page.get_by_text("Ln 5, Col").wait_for()

    page.get_by_role("tab", name="fail.ipynb").click()
    notebook.run(4)
    notebook.await_end_of(4)
    assert notebook.cell(4).get_by_role("cell", name="well").count() == 2
    assert notebook.complaints == []


@pytest.mark.deep
@pytest.mark.parametrize("notebook", ["light", "dark", "zoomed"], indirect=True)
def test_nothing_shuts_anybody_out(lab, notebook):
    """axe looks for low contrast, fields without names, pictures without descriptions, …"""
    from axe_playwright_python.sync_playwright import Axe

    remember(lab, EX.global_rank, EX.mean_over_ranks)
    page = run_notebook(lab, notebook, COURSE, PREDICTION, CONTROLS, FILM, VERDICT, OTHER_VERDICTS)
    page.get_by_label("algorithm").select_option("tree")
    page.get_by_text("Hint 1 of").first.click()
    box = page.get_by_label("Predict Sent by each rank")
    box.fill("nonsense")
    box.press("Enter")
    page.get_by_text("is not noted").wait_for()
    found = Axe().run(page, context={"include": [[".jp-OutputArea-output"]]})
    assert not found.response["violations"], found.generate_report()
    for part in page.locator(".course-controls, .course-question, .course-film").all():
        assert part.evaluate("element => element.scrollWidth <= element.clientWidth + 1")
    for picture in page.locator(".course-picture img").all():
        assert picture.bounding_box()["width"] >= 600  # its texts stay legible: it scrolls


@pytest.mark.deep
def test_what_comes_next_is_a_click_away(lab, notebook):
    remember(lab, EX.global_rank, EX.mean_over_ranks)
    page = run_notebook(lab, notebook, COURSE)
    page.get_by_role("listitem").filter(has_text="Start here").wait_for()  # its stamp
    page.get_by_role("link", name="exercise 0.3").click()
    page.get_by_role("tab", name="00b_what_to_split.ipynb").wait_for()
    assert "/work/00b_what_to_split.ipynb" in page.url


def remember(lab, *numbers):
    """That their checks have passed, in the record beside the learner's notebooks."""
    record = dict.fromkeys(numbers, "2026-11-28")
    (lab.folder / "work" / ".progress.json").write_text(json.dumps(record))


@pytest.mark.deep
@pytest.mark.parametrize("notebook", ["small"], indirect=True)
def test_long_lines_of_code_are_wrapped_in_a_small_window(lab, notebook):
    run_notebook(lab, notebook, f"# %%\nprint({', '.join(map(repr, range(60)))})\n")
    scroller = notebook.cell(1).locator(".cm-scroller")
    assert scroller.evaluate("element => element.scrollWidth <= element.clientWidth")
    assert scroller.bounding_box()["height"] > 3 * LINE_HEIGHT


@pytest.mark.deep
def test_a_new_learner_begins(lab, notebook):
    """Three keystrokes after `make lab`, the first numbers are there; every file is as it was."""
    before = digests(lab.folder / "notebooks")
    shutil.rmtree(lab.folder / "workspaces", ignore_errors=True)  # else tabs come back
    page = notebook.page
    page.goto(f"{lab.url}/?token={TOKEN}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    assert page.url.endswith("/lab/tree/work/00_start_here.ipynb")
    cover = page.get_by_role("img", name="Two grids with a row for each of four ranks")
    assert cover.evaluate("picture => picture.naturalWidth") > 600
    for _ in range(3):
        page.keyboard.press("Shift+Enter")
    page.get_by_text("4 ranks · Gloo on the CPU").wait_for()
    page.locator("summary", has_text="The map, chapters 00 to 04").click()
    page.get_by_role("link", name="02 · Collectives").click()
    page.get_by_role("heading", name="02 · Collectives").wait_for()
    page.keyboard.press("Control+s")
    assert wait_until(lambda: (lab.folder / "work" / ".ipynb_checkpoints").exists(), 20)
    assert digests(lab.folder / "notebooks") == before
    notebook.assert_quiet()


@pytest.mark.deep
@pytest.mark.parametrize("notebook", ["dark"], indirect=True)
def test_a_dark_page_has_dark_covers_before_anything_is_run(lab, notebook):
    notebook.open(lab.address("05d_activations"))
    cover = notebook.page.get_by_role("img", name="Bytes that one transformer block keeps")
    assert "invert" in cover.evaluate("element => getComputedStyle(element).filter")


@pytest.mark.deep
@pytest.mark.parametrize("part", ["00_start_here", "02_collectives", "02g_across_machines"])
def test_a_part(lab, notebook, part):
    notebook.open(lab.address(part))
    notebook.run_all()
    page = notebook.page
    pictures = page.locator(".jp-OutputArea-output img, .jp-MarkdownOutput img").all()
    assert len(pictures) > 3
    assert not [picture for picture in pictures if not (picture.get_attribute("alt") or "").strip()]
    notebook.assert_quiet()


def digests(folder) -> dict[str, str]:
    """What each file of a folder holds."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
