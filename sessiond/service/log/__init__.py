"""The lines of an opened session and what they come to; actors and files share this."""
