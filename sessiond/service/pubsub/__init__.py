"""Fan-out: subscribers of a session, their cursors and replays, and presence."""
