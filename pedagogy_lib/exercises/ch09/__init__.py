"""Exercises of chapter 09."""
