"""Exercises of chapter 04."""
