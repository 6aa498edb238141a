"""The parts that the check and the truth share."""


class Step(list):
    """A list: [step], or [] for None, so that all values have one type and can be tabulated."""


def wrap_step(function):
    def call(held):
        value = function(held)
        return value if isinstance(value, Step) else Step([value] if value is not None else [])

    return call
