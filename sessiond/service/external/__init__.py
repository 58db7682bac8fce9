"""Foreign writers of an open session's file: their lines, and the notices of their changes."""
