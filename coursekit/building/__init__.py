"""The build of notebooks, labs and executed records from chapters/."""
