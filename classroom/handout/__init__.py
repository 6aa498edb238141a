"""The handout for learners: the course without anything that holds an answer."""
