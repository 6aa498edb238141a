"""The course in the teacher's platform: nbgrader and Gradescope.

platform_results                   one judged submission, as both platforms ask for it
cells, assignment                  a chapter as an assignment of nbgrader
nbgrader_*                         steps of nbgrader's own commands, in nbgrader's Python
judge_server                       the answers to their questions, in the course's Python
gradescope, gradescope_container   Gradescope's autograder: the zip, and the program in it
"""
