"""Layers cut into stages on submeshes. The truth tries every plan that a dict of stages allows."""

from coursekit.protocol import Exercise, Wrong

from .cases import AGAIN, DEVICES, LAYERS, POINTED, RANDOM, StageTrial
from .truth import IMPOSSIBLE, need_large, need_refusal, random_cases, read_plan, why_slow


def examine(answer):
    chosen = random_cases()
    cases = POINTED | {f"random case {k + 1}": next(chosen) for k in range(RANDOM)}
    tried = [StageTrial(case, of, read_plan(case, answer, *of)) for case, of in cases.items()]
    for one in tried:
        if one.seconds_of(one.plan) != one.best:
            what = f"{one.plan} takes {one.seconds_of(one.plan)}; {one.best} is possible"
            raise Wrong(one.told, what, why_slow(tried))
    yield "; ".join(POINTED)
    yield f"{RANDOM} random cases: no plan is faster"
    for case, arguments in IMPOSSIBLE.items():
        need_refusal(case, answer, arguments)
    yield "what is not possible: ValueError"
    need_large(answer)
    yield f"{LAYERS} layers on {DEVICES} devices: no plan is faster"


EXERCISE = Exercise(
    "best_stages",
    examine,
    slow=AGAIN,
    hints=(
        "Which values can the slowest stage's seconds have? One of the values of `seconds`.",
        "For one such limit: rest(first, left), the least sum for the layers from `first` on, on "
        "exactly `left` devices, without stages slower than the limit.",
        "Take as the first stage each key that begins at `first`; what is left is the same "
        "question again. functools.cache remembers its answers.",
        "Then compare sum + (microbatches - 1) × limit over all limits.",
    ),
)
