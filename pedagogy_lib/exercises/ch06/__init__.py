"""Exercises of chapter 06."""
