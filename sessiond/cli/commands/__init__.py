"""One command a file; each exports `COMMAND`. The table of contents is in `sessiond.cli`."""
