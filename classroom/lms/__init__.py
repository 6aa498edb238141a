"""The course in the teacher's platform: nbgrader and Gradescope.

platform_results                   one submission, judged: what both platforms ask for
cells, assignment                  a chapter as an assignment of nbgrader
nbgrader_*                         what nbgrader's own commands do then, in nbgrader's Python
judge_server                       what they ask, in the course's Python
gradescope, gradescope_container   Gradescope's autograder: the zip, and what runs in it
"""
