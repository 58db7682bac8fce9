"""Commands, one per file; each exports `COMMAND`. The table of contents is in `sessiond.cli`."""
