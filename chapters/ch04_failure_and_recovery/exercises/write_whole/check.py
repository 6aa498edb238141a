"""A file that is either the old or the new one, whatever happens to the process that writes it."""

from coursekit.kit import RankExercise
from coursekit.kit.single_rank import Alone, run_alone

from .cases import (
    check_normal_writes,
    full_disk,
    kill_between_calls,
    kill_mid_write,
    many_at_once,
    power_cut,
)
from .truth import files_are_whole

EXERCISE = RankExercise(
    "write_whole",
    lab="checkpoints",
    cases=[
        Alone("left alone", check_normal_writes),
        Alone("killed while it writes", kill_mid_write),
        Alone("killed between two calls", kill_between_calls),
        Alone("a full disk", full_disk),
        Alone("several at once", many_at_once),
        Alone("the power fails", power_cut),
    ],
    work=run_alone,
    timeout=20.0,  # it writes about thirty times, each time in a separate process
    facts=[files_are_whole],
    found=lambda case: ("told", "held"),
    right=lambda trial: trial[0].told,
    hints=(
        "Under its name, a file must never be seen half written. So where do you write, until all "
        "of it is there?",
        'Open another name in the same folder, such as f"{path.name}.unfinished", with "wb". When '
        "all is written, os.replace(that, path).",
        "Before the renaming: file.flush(), os.fsync(file.fileno()). After it: sync_folder("
        "path.parent). path may be a str: Path(path).",
        "If anything raises: unlink the unfinished file (missing_ok=True), and raise.",
    ),
)  # fmt: skip
