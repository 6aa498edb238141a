"""Failure detection: how long until every rank knows what is wrong, and with which rank."""

import tempfile
from pathlib import Path

from rows import Measurement, Row

from coursekit.labs import Lab
from pedagogy_lib import launch

LABS = Path(__file__).resolve().parents[1] / "solutions" / "labs"
CRASH_SECONDS, MORE_SECONDS, STEPS = (
    2.0,
    1.0,
    10,
)  # until all know; beyond a timeout; to name a slow rank
TIMEOUT, PATIENCE, TIMES = 2.0, 1.0, 3


def measurements() -> list[Measurement]:
    return [
        Measurement("ranks that are lost", measure_lost_ranks),
        Measurement("wrong and slow", measure_detection),
    ]


def lab():
    path = LABS / "finding_out.py"
    return Lab("finding_out", path, path)


def lose(finding, folder, fault, timeout, patience):
    return finding.train_until_lost(folder, None, fault, timeout, patience)


def look_for(finding, fault):
    return finding.train_and_check(None, fault)


def measure_lost_ranks():
    """Measure when the last rank knows of a failure, in the slowest of a few runs."""
    finding = lab()
    plans = [("killed", TIMEOUT, None, CRASH_SECONDS)]
    plans += [(what, TIMEOUT, None, TIMEOUT + MORE_SECONDS) for what in ("stopped", "waits")]
    plans += [(what, 60.0, PATIENCE, PATIENCE + MORE_SECONDS) for what in ("stopped", "waits")]
    for what, timeout, patience, most in plans:
        seconds = max(seconds_until_known(finding, what, timeout, patience) for _ in range(TIMES))
        by = f"guards, {patience:g} s" if patience else f"a timeout of {timeout:g} s"
        yield Row(f"after '{what}' on one of four ranks, all know ({by})", f"{seconds:.2f} s",
                  limit=f"<= {most:g} s", holds=seconds <= most)  # fmt: skip


def seconds_until_known(finding, what, timeout, patience) -> float:
    with tempfile.TemporaryDirectory() as folder:
        values = launch(lose, finding, folder, finding.Fault(what, 2, 20), timeout, patience,
                        world_size=4, device="cpu", replacements=0).values  # fmt: skip
    return max(value["after"] for value in values if value)


def measure_detection():
    finding = lab()
    for what, most in {"wrong gradients": 1, "wrong weights": 1, "slow": STEPS}.items():
        run = launch(look_for, finding, finding.Fault(what, 2, 12), world_size=4, device="cpu")
        found = run.values[0] or {"ranks": [], "steps": 1000}
        yield Row(f"{what} on rank 2: rank named after so many steps", f"{found['steps']}",
                  limit=f"<= {most}", holds=found["ranks"] == [2] and found["steps"] <= most,
                  raw=found)  # fmt: skip
