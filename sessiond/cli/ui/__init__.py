"""Terminal output of commands: text, tables, progress, questions, failures.

output.py    JSON, text or tables on standard output
failure.py   the failure that ends a command
failures.py  exceptions as failures with the next step and an exit status
command_terms.py  terms of the command line, and errors of the protocol in these
render.py    sessions and entries for people
session_list.py  lists of sessions for people
pager.py     output longer than the terminal
progress.py  progress of long work
confirm.py   a question to answer with yes
text.py      text that is safe on a terminal
"""
