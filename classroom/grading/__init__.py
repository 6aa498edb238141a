"""Grading a class: submissions in, scores and diagnoses out.

layouts, archives   what was handed in, by whom, in which form
programs, finding   the answers in it, found by name; no code of a student runs here
judging, facts      what the checks say, and the share of their cases that hold
workers, known      many students at a time; nothing is judged twice
writing             results.json, grades.csv, and a summary
"""
