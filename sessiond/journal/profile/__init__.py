"""The folders, file names and locks of a profile, and how a new file gets its place there."""
