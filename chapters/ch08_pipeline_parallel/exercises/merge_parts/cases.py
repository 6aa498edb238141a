"""What is looked at next to the answer: the dtypes of its results."""


def dtypes_of(answer, arguments) -> list[str]:
    return [str(one.dtype) for one in answer(*arguments)]
