"""Statements of the documents, with the verdicts that the course has measured."""
