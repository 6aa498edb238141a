"""What the instruments cannot follow: left out of the figures, with the reason."""

import signal

MOST_REASONS = 1000  # that are kept in a process; each label shows different ones only


class LeftOut:
    """The reasons why figures are not counted, in the order in which they arose."""

    def __init__(self):
        self.reasons: list[str] = []

    def __len__(self):
        return len(self.reasons)

    def since(self, first) -> list[str]:
        return list(dict.fromkeys(self.reasons[first:]))

    def note(self, what, error):
        """Note that an instrument has failed at something, instead of raising the error."""
        reason = reason_of(error)
        if len(self.reasons) < MOST_REASONS:
            self.reasons.append(f"{what}: {reason}")


def reason_of(error) -> str:
    """Return an error's first line, or its kind if it says nothing.

    Raises  the error, if one of the program's signal handlers has raised it: it is no instrument's
    """
    if is_of_handler(error):
        raise error
    return (str(error) or type(error).__name__).splitlines()[0]


def is_of_handler(error) -> bool:
    """Return whether a signal handler of the program, such as one for SIGALRM, has raised this."""
    handlers = {getattr(signal.getsignal(one), "__code__", None) for one in signal.valid_signals()}
    traceback, codes = error.__traceback__, set()
    while traceback is not None:
        codes.add(traceback.tb_frame.f_code)
        traceback = traceback.tb_next
    return not codes.isdisjoint(handlers - {None})
