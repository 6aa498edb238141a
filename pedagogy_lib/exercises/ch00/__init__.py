"""Exercises of chapter 00."""
