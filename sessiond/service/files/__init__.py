"""Session files as wholes: made, found, opened, moved, judged. Blocking, for worker threads."""
