"""python -m classroom: print the programs for a teacher, and how they are called."""

USAGE = """\
python -m classroom.handout CHAPTERS     the course without answers (make handout)
python -m classroom.grading SUBMISSIONS  grade a folder of submissions (make grade)
python -m classroom.lms nbgrader         assignments for nbgrader (make nbgrader)
python -m classroom.lms gradescope       Gradescope's autograder (make gradescope)
python -m classroom.teaching exam        an exam, or slides (make exam, make slides)"""

if __name__ == "__main__":
    print(USAGE)
