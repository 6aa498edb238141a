"""What a learner types into and moves, in the browser."""
