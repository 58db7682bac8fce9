"""What foreign writers do to the file of an open session, and who tells of it."""
