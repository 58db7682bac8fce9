"""Features: each answers one kind of question about an open document.

Law: a feature is one module and one row in `table`. What a feature decides is pure and takes
places, nodes and lines; its `answer` fetches them. Without a daemon, or about a file that the
daemon does not read, the answer is nothing. A session that cannot be changed is offered nothing
that changes it.

    table.py        all features and commands, for the server to register
    desk.py         what an answer starts from: the view of a document, and the window
    folding.py      folding ranges, by turns and compactions
    references.py   children of an entry, and lines that name its id
    offers.py       which commands fit an entry
    lenses.py       code lenses: the commands above each entry
    fixing.py       code actions: fixes of problems, commands of an entry
    commands.py     what the commands do
    hints.py        inlay hints: tokens and label of each entry
    symbols.py      workspace symbols: a search over all sessions
    tokens.py       semantic tokens: the words of each line
    words.py        type, role, ids and label in a line
"""
