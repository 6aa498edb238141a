"""What a rank says that cannot go on with an answer."""


class Refused(Exception):
    """A rank cannot go on with an answer: what is wrong, and which misconception that is."""

    def __init__(self, what, why):
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self):
        return self.what
