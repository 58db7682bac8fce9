"""Scans: the rows of sessions against the catalog, to find changes of other daemons. Blocking.

scanner.py  rows that changed, into the catalog
census.py   rows as the last scan saw them, and whether other rows changed
rows.py     rows of the catalog
"""
