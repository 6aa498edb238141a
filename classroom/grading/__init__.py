"""Grading a class: submissions in, scores and diagnoses out.

collect, layouts, files   what was handed in, by whom, in which form
programs, find_answer     the answers in it, found by name; no code of a student runs here
judge, facts              what the checks say, and the share of their cases that hold
workers, verdict_cache    many students at a time; nothing is judged twice
result_files              results.json, grades.csv, and a summary
"""
