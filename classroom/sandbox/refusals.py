"""The error that says why the classroom runs no student's code here."""

from pedagogy_lib.basics.errors import WrongInput


class Refusal(WrongInput):
    """An error: no sandbox works here, or a submission is of no use; the message says why."""
