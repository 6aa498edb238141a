"""The grading of a class: from submissions to scores and diagnoses.

collect, layouts, files   what was handed in, by whom, and in which form
programs, find_answer     the answers, found by name; no code of a student runs here
judge, facts              the results of the checks, and the share of their cases that hold
workers, verdict_cache    many students at a time; nothing is judged twice
result_files              results.json, grades.csv, and a summary
"""
