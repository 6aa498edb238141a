"""The participants of a meeting: they ask one store at the same time, late or never."""

from coursekit.kit import RankExercise, complains
from coursekit.kit.single_rank import Alone, run_alone

from .cases import CASES, meet
from .truth import TWO_TEXTS, describe_trial, faults

EXERCISE = RankExercise(
    "who_is_there",
    lab="keep_training",
    cases=[Alone(asks.what, meet, (asks,)) for asks in CASES],
    work=run_alone,
    found=lambda case: ("got", "early", "late"),
    facts=[complains(faults)],
    right=describe_trial,
    timeout=40.0,
    errors={"Extra data": TWO_TEXTS},
    on_hang="who asks, waits only for what others have written into the store",
    hints=(
        "What has to be in the store, so that the others know that you are there? And what, so "
        "that all return the same?",
        "Announce yourself: store.append(f'{meeting}: came', f'{me},'). Then, until there is a "
        "list, look who has come, and whether it is time to propose one.",
        "It is time if n have come. If you are no newcomer, also if all of `former` are among "
        "them, or if `patience` seconds have passed since you came (time.monotonic()).",
        "compare_set(f'{meeting}: agreed', '', json.dumps(sorted(came))) keeps the first proposal. "
        "Sleep a little before you look again; return json.loads(store.get(…)).",
    ),
)  # fmt: skip
