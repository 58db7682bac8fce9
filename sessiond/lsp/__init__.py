"""The editors' face: outline, hover and problems of session files, over stdio.

Law: the daemon says what an entry is, the editor's text says where it stands. Nothing
here reads sessions or knows the service; all of it is asked through `sessiond_client`.
Only `server` and `shapes` know pygls.
"""
