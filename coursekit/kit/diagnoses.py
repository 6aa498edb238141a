"""What is said of a wrong answer. It may be anything, and what cannot cope with it is silent."""

from ..protocol import Wrong

MAY_FAIL = True  # not in the tests of this course: there it is a bug to mend


def said_by(diagnosis, *args, otherwise=""):
    """What a diagnosis returns; `otherwise` if it fails on such an answer."""
    try:
        return diagnosis(*args)
    except Wrong:
        raise
    except Exception:
        if not MAY_FAIL:
            raise
        return otherwise
