"""Exercises of chapter 03."""
