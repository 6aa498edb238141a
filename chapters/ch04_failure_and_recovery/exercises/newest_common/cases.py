"""What the cases and the truth share."""


class Step(list):
    """[step], or [] for None: so values are of one kind, which can be told."""


def wrap_step(function):
    def call(held):
        value = function(held)
        return value if isinstance(value, Step) else Step([value] if value is not None else [])

    return call
