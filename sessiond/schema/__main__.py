"""Write the generated files of the clients: python -m sessiond.schema, in the checkout."""

from __future__ import annotations

from pathlib import Path

from sessiond.schema.clients import CLIENTS


def main() -> None:
    """Write every file, after all texts were made."""
    texts = {path: text() for path, text in CLIENTS.items()}
    for path, text in texts.items():
        Path(path).write_text(text, "utf-8")


main()
