"""What learners get: the course without anything that holds an answer."""
