"""The learner's copies of the course, and what is handed out and handed in."""
