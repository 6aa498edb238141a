"""What runs in Gradescope's container for each submission: results.json, whatever happens.

    python -m classroom.lms.gradescope_container /autograder

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
LEFT_SECONDS = 60.0  # of Gradescope's time, to tell what is known, to end and to write
TELLING_SECONDS = 45.0  # of these, to tell it
RESULTS = "results/results.json"


def main(folder: Path, way=None):
    asked = json.loads((folder / "source" / "asked.json").read_text())
    keep_to_root(folder)
    found = judge_in_process(folder, asked, way)
    results = results_of(asked, found) if "answers" in found else broken(asked, found["error"])
    path = folder / RESULTS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1))


def keep_to_root(folder):
    """What Gradescope has put there and another user has no need to see."""
    for name in ("submission", "results", "submission_metadata.json"):
        if (folder / name).exists():
            (folder / name).chmod(0o700)


def judge_in_process(folder, asked, way) -> dict:
    """What the judging has found; {"error": …} if it came to nothing.

    If it is killed, a second one tells what the first had judged.
    """
    seconds = 60 * asked["minutes"] - LEFT_SECONDS
    with tempfile.TemporaryDirectory(prefix="judged-") as out:
        question = asked | {"submission": str(folder / "submission"), "out": out, "way": way}
        lines, end = ask_judge(question | {"seconds": 0.8 * seconds}, seconds)
        if not is_reply(lines):
            print(f"the judging {end}")
            known = [one for one in asked["exercises"] if one["number"] in lines]
            if known:
                lines, _ = ask_judge(question | {"exercises": known}, TELLING_SECONDS)
    return lines[-1] if is_reply(lines) else {"error": f"the judging {end}"}


def ask_judge(question, seconds) -> tuple[list, str]:
    """(the lines that the judging says, how it ended)"""
    command = [sys.executable, "-m", "classroom.lms.judge_server", json.dumps(question)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds)
        said, end = done.stdout, f"ended with {done.returncode}"
    except subprocess.TimeoutExpired as error:
        said, end = error.stdout or b"", f"took more than {seconds:.0f} s"
    whole = [line for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    return [json.loads(line) for line in whole], end


def is_reply(lines) -> bool:
    """Before the reply, the judging says the number of each exercise that it has judged."""
    return bool(lines) and isinstance(lines[-1], dict)


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
