"""A value that the cases and the truth share."""

ANY = None  # replaces a number about which a mistake says nothing
