"""What runs in Gradescope's container for each submission: results.json, whatever happens.

    python -m classroom.lms.in_container /autograder

The judging is a process of its own, so that its end, of whatever kind, still gives a results.json.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

BROKEN = (
    "The autograder could not judge this submission. That is not your fault; please tell your "
    "teacher."
)
LEFT_SECONDS = 30.0  # of Gradescope's time, to end and to write
RESULTS = "results/results.json"


def main(folder: Path, way=None):
    asked = json.loads((folder / "source" / "asked.json").read_text())
    keep_to_root(folder)
    found = judged_apart(folder, asked, way)
    results = results_of(asked, found) if "answers" in found else broken(asked, found["error"])
    path = folder / RESULTS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1))


def keep_to_root(folder):
    """What Gradescope has put there and another user has no need to see."""
    for name in ("submission", "results", "submission_metadata.json"):
        if (folder / name).exists():
            (folder / name).chmod(0o700)


def judged_apart(folder, asked, way) -> dict:
    """What the judging has found; {"error": …} if it came to nothing."""
    seconds = 60 * asked["minutes"] - LEFT_SECONDS
    with tempfile.TemporaryDirectory(prefix="judged-") as out:
        question = asked | {"submission": str(folder / "submission"), "out": out, "way": way,
                            "seconds": 0.8 * seconds}  # fmt: skip
        command = [sys.executable, "-m", "classroom.lms.judging", json.dumps(question)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"error": f"it took more than {seconds:.0f} s"}
    sys.stderr.write(done.stderr)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": f"the judging ended with {done.returncode}, and said nothing"}


def results_of(asked, found) -> dict:
    """In Gradescope's format. What only a teacher should read is printed, and hidden."""
    for number, answer in found["answers"].items():
        for reason in answer["reasons"]:
            print(f"{number}: {reason}")
    return {
        "output": "\n".join(found["problems"]),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [test_of(one, found["answers"].get(one["number"])) for one in asked["exercises"]],
    }


def test_of(exercise, answer) -> dict:
    test = {
        "number": exercise["number"], "name": exercise["title"], "max_score": exercise["points"],
        "output_format": "text", "visibility": "visible",
    }  # fmt: skip
    if answer is None:
        said = "there was no time left for this exercise"
        return test | {"score": 0.0, "status": "failed", "output": said}
    score = round(answer["score"] * exercise["points"], 3)
    status = "passed" if answer["state"] == "right" else "failed"
    return test | {"score": score, "status": status, "output": answer["text"]}


def broken(asked, why) -> dict:
    """No traceback and no path is shown to a student."""
    print(f"the autograder is broken: {why}")
    return {
        "score": 0, "output": BROKEN, "visibility": "visible", "stdout_visibility": "hidden",
        "tests": [],
    }  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
