"""What the cases and the truth share."""

ANY = None  # in the place of a number of which a mistake says nothing
