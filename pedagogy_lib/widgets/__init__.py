"""Fields and controls in the browser, which a learner types into or moves."""
