"""Scans: the folders against the catalog, to find foreign changes. Blocking.

folder_scanner.py  the scan, and what it remembers of the folders
row_makers.py      processes that read new files ahead of the scan
batches.py         rows that a scan reads, a batch at a time
root_folders.py    looks at the folders of roots
file_index.py      files by session id
mtime_cache.py     whether a folder or file is unchanged
"""
