"""How tests are dealt out to workers: what takes long first, and what belongs together to one.

A notebook's cells need one kernel, and the tests of a file may share what it sets up. Answers to
exercises are many, and need nothing of each other: each exercise is a piece of its own.
"""

from xdist.scheduler import LoadScopeScheduling

LONG = (".ipynb", "test_papermill.py", "test_answers.py", "test_session.py", "test_lab_programs.py")


class Plugin:
    def pytest_xdist_make_scheduler(self, config, log):
        config.option.loadscopereorder = False  # longest first, and not the one with most tests
        return Pieces(config, log)


class Pieces(LoadScopeScheduling):
    def _split_scope(self, nodeid):
        return piece_of(nodeid)


def piece_of(nodeid: str) -> str:
    """The file; of answers, the number of the exercise, too."""
    file, _, test = nodeid.partition("::")
    if not file.endswith("test_answers.py"):
        return file
    return f"{file} {test.partition('[')[2].rstrip(']').partition(' ')[0]}"


def longest_first(items):
    """Sort tests by their pieces, in place."""
    items.sort(key=lambda item: next((n for n, end in enumerate(LONG) if end in item.nodeid), 9))
