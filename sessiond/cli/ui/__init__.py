"""What a command shows on a terminal: text, tables, progress, questions, failures."""
