"""Pure state of one session: the meaning of its lines, and the rules for the next one."""
