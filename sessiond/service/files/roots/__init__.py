"""Roots: folders of other programs on the daemon's machine.

roots.py    the roots of a profile
places.py   places of new files in roots
running.py  programs of other agents that run now
"""
