"""The trash of a profile, which keeps deleted files until they are purged.

trash.py      moves into the trash and final removals
restoring.py  deleted sessions brought back from the trash
carrying.py   a file moved or copied to another device
"""
