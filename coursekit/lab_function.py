"""A function of a lab, as a check calls it."""


class LabFunction:
    """One function of a lab, read anew in every rank."""

    def __init__(self, lab, name):
        self.lab, self.__name__ = lab, name

    def __call__(self, *args, **kwargs):
        return getattr(self.lab, self.__name__)(*args, **kwargs)
