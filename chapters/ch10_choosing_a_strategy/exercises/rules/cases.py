"""Diagnoses of wrong equations."""

FORM = "an equation is a pair: a dict {variable: factor}, and the number that their sum has to be"

NAMES = "variables are tuples: (u, i) of an operator, (u, i, v, j) of an edge (u, v)"

BOTH_FREE = "a pair is 1 whose ways are not chosen: nothing ties it to its operators"
