"""Exercises of chapter 05."""
