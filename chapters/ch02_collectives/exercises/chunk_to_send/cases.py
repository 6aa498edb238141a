"""The diagnosis of an answer that is not an integer."""

NOT_AN_INDEX = (
    "the number is looked up in a list of chunks, and a list takes whole numbers alone: 2, and not "
    "2.0. A division with / gives 2.0, one with // gives 2."
)
