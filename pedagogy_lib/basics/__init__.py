"""What every room uses: errors, numbers as text, tables, and the one comparison of numbers."""
