"""The teacher's programs, which no learner gets: handing out, collecting, grading, teaching."""
