#!/usr/bin/env bash
# Gradescope calls this for each submission, as root.
autograder="${1:-/autograder}"
cd "$autograder/source/course" &&
	OMP_WAIT_POLICY=PASSIVE .venv/bin/python -m classroom.lms.gradescope_container "$autograder" && exit

mkdir -p "$autograder/results"
cat >"$autograder/results/results.json" <<'END'
{"score": 0, "stdout_visibility": "hidden",
 "output": "The autograder is broken. That is not your fault; please tell your teacher."}
END
