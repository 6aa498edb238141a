"""What a teacher has, and no learner gets: handing out, collecting, grading, teaching."""
