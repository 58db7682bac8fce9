"""Language server: outline, hover and problems of session files, over stdio.

Law: the daemon tells what an entry is, the editor's text tells its place. This package reads no
sessions and does not know the service; it asks through `sessiond_client`. Only `server` and
`shapes` know pygls.
"""
