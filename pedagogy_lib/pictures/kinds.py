"""The kinds of bytes, as pictures name them: parameters, gradients, optimizer state and so on."""

from ..basics.errors import need
from ..measuring.memory_log import KINDS


def need_kinds(kinds):
    """Raise WrongInput unless each is one of `KINDS` or "total"."""
    unknown = sorted(map(str, {*kinds} - {*KINDS, "total"}))
    need(not unknown, f"there are no such kinds as {unknown}: use {', '.join(KINDS)}")


def name_of(kind) -> str:
    return kind.replace("_", " ")
