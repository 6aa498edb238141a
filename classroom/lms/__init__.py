"""The course in the teacher's platform: nbgrader and Gradescope.

judged                            one submission, judged: what both platforms ask for
cells, assignment                 a chapter as an assignment of nbgrader
nbgrader_settings, nbgrader_steps what nbgrader's own commands then do; these import nothing of ours
gradescope, in_container          Gradescope's autograder: the zip, and what runs in it
"""
