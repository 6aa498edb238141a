"""What GitHub and those who cite read: the workflows, and one version everywhere."""

import re
import subprocess

import needs
import yaml
from helpers import ROOT

from coursekit.building.chapter_texts import round_to_hours
from coursekit.chapters import chapters, exercise_numbers, parts

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@needs.mark("zizmor")
def test_a_linter_has_nothing_to_say_of_the_workflows():
    command = [needs.ZIZMOR, "--offline", "--persona=pedantic", *WORKFLOWS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_workflows_call_what_the_makefile_has():
    steps = [step.get("run") for path in WORKFLOWS
             for job in yaml.safe_load(path.read_text())["jobs"].values()
             for step in job["steps"]]  # fmt: skip
    called = {step.removeprefix("make ") for step in steps if step}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"setup", "test", "book"} <= called <= targets


def test_one_version_stands_everywhere():
    (declared,) = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    latest = re.search(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert latest.groups() == (declared, cited["date-released"])
    assert cited["version"] == declared


def test_the_page_says_how_large_the_course_is():
    every = parts().values()
    hours = [
        round_to_hours(sum(minutes)) for minutes in zip(*((p.reading, p.writing) for p in every))
    ]
    said = (f"The {len(chapters())} chapters have {len(every)} parts and {len(exercise_numbers())} "
            f"exercises: {hours[0]} hours to read and run, and {hours[1]} more")  # fmt: skip
    page = " ".join((ROOT / "README.md").read_text().split())
    assert said in page, f"README.md has to say: {said} …"
