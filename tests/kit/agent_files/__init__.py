"""Session files of other agents: a generator from a seed, and a second reader to hold sessiond's against.

The generator writes what Claude Code, Codex and Gemini CLI write, and knows the context that its lines
mean. The second reader finds leaf, title, context, usage and tree in raw lines. Neither knows sessiond.
Equal seeds give equal bytes. opencode changes rows of a database: its scripts yield transactions, and do
not know what these mean.

    script = claude_script(7, Sizes(turns=200))
    for move, lines in script.steps():
        ...                       # script.order: role and ids of each message of the context so far
    read_claude(list(all_lines))  # leaf, title, context, usage, tree

    for move, transactions in opencode_script(7).steps():
        play(connection, transactions)
    read_opencode(path, script.main.id)

Modules, in the order in which to read them:

* said: a message, a step of a talk, a reading; how ids are made where an agent has none
* dice: chance, time and words of a session; sizes
* claude_moves, codex_moves, gemini_moves: the scripts and all their moves by name; open these first
* opencode_moves, opencode_rows: the moves of opencode's versions 1 and 2
* claude, codex, gemini, opencode: one script in the making
* claude_compactions: moves that cut the context of a talk with Claude Code
* claude_lines, codex_lines: shapes of lines and payloads
* second_claude, second_codex, second_gemini, second_opencode: the second readers
* shapes: whether a line has the shape that the facts on the format state
* writing: lines into files, in pieces that are torn at any byte
* roots: folders laid out as the programs lay them out
"""
