"""A session made of another: what is taken, how it is placed, what it is called."""
