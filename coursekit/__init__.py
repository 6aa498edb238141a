"""What makes it a course: labs, checks, predictions, and the notebooks' build."""
