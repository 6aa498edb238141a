"""The program in Gradescope's container: in any event, it writes results.json for each submission.

    python -m classroom.lms.gradescope_container /autograder

The judging is a separate process, so that results.json is written however that process ends.
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
LEFT_SECONDS = 60.0  # of Gradescope's time, to report what is known, to end and to write
TELLING_SECONDS = 45.0  # of these, to report it
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
    """Close Gradescope's files to other users, who have no need to see them."""
    for name in ("submission", "results", "submission_metadata.json"):
        if (folder / name).exists():
            (folder / name).chmod(0o700)


def judge_in_process(folder, asked, way) -> dict:
    """Return what the judging has found, or {"error": …} if it came to nothing.

    If it is killed, a second process reports what the first one had judged.
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
    """Return the JSON values that the judging has printed, one per line, and how it ended.

    A last line that was cut off, because the judging was killed or took too long, is dropped.
    """
    command = [sys.executable, "-m", "classroom.lms.judge_server", json.dumps(question)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds)
        said, end = done.stdout, f"ended with {done.returncode}"
    except subprocess.TimeoutExpired as error:
        said, end = error.stdout or b"", f"took more than {seconds:.0f} s"
    whole = [line for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    return [json.loads(line) for line in whole], end


def is_reply(lines) -> bool:
    """Return whether the last line is a reply; the lines before it number judged exercises."""
    return bool(lines) and isinstance(lines[-1], dict)


def results_of(asked, found) -> dict:
    """Return results in Gradescope's format; print, hidden, what only a teacher should read."""
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
    """Return results that show a student no traceback and no path; print the reason, hidden."""
    print(f"the autograder is broken: {why}")
    return {
        "score": 0, "output": BROKEN, "visibility": "visible", "stdout_visibility": "hidden",
        "tests": [],
    }  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
