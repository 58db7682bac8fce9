"""Fan-out: the subscribers of a session, their cursors, their replays, and who is present."""
