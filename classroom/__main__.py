"""python -m classroom: what there is for a teacher, and how it is called."""

USAGE = """python -m classroom.grading SUBMISSIONS   grade a folder of submissions (make grade)"""

if __name__ == "__main__":
    print(USAGE)
