"""The kinds of sandbox that work on this machine, and the choice of one."""

import subprocess
from functools import cache
from types import ModuleType

from . import bubblewrap, landlock, other_user, trust
from .refusals import Refusal

WALLS = (bubblewrap, landlock, other_user)  # the best first
BY_NAME = {way.NAME: way for way in (*WALLS, trust)}


@cache
def reason_against(way: ModuleType) -> str:
    """Return why a way cannot be used here, or "" if it can. It is tried once in a process."""
    try:
        return way.why_not()
    except (OSError, subprocess.SubprocessError) as error:
        return f"trying it has failed: {error}"


def ways() -> dict[str, str]:
    """Return {each way: why it cannot be used here, or ""}, the best first and trust last."""
    return {name: reason_against(way) for name, way in BY_NAME.items()}


def choose_backend(name: str | None = None) -> ModuleType:
    """Return the way of that name, or the best one that works here, which is never trust.

    Raises  Refusal if none works, or not that one; it says what to install
    """
    if name is None:
        usable = [way for way in WALLS if not reason_against(way)]
        return usable[0] if usable else refuse()
    if name not in BY_NAME:
        raise Refusal(f"there is no way {name!r:.40} to run students' code: {', '.join(BY_NAME)}")
    why = reason_against(BY_NAME[name])
    if why:
        raise Refusal(f"students' code cannot run by way of {name} here: {why}")
    return BY_NAME[name]


def refuse():
    reasons = [f"{way.NAME}: {reason_against(way)}" for way in WALLS]
    raise Refusal(
        "this machine has no walls for students' code, so nothing is graded. Mend one of these, "
        f"the first is the best: {'; '.join(reasons)}. Or grade with --trust, if you would run "
        "each submission as yourself"
    )
