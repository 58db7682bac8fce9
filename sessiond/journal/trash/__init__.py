"""The trash of a profile: what was deleted goes there and comes back from there."""
