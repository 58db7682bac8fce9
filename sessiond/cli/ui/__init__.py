"""Terminal output of commands: text, tables, progress, questions, failures."""
