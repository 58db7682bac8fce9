"""Commands' work without a daemon, also while a daemon writes: files are read, and but for a move never changed.

session_file.py      the file of a session that a user names
found_files.py       session files in folders that a user names
file_formats.py      a file of any format: what is wrong with it, and its lines
lines.py             lines as `dump` shows them
moving.py            `import --move-to`, the one that changes files
examination.py       `doctor` on folders, socket, daemon, disk
examined_database.py `doctor` on the configured database
examined_files.py    `doctor` on session files
examined_state.py    `doctor` on the state store, the secrets and their key
examined_remains.py  `doctor` on what crashes and deletes left
"""
