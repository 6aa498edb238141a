"""`Refusal`: why the classroom runs no student's code here."""

from pedagogy_lib.basics.errors import WrongInput


class Refusal(WrongInput):
    """There are no walls on this machine, or a submission is of no use; the message says why."""
