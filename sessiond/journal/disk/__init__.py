"""The system calls on files, and descriptors of regular files."""
