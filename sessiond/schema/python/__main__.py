"""Write the generated files of the Python client: python -m sessiond.schema.python, in the checkout."""

from __future__ import annotations

from pathlib import Path

from sessiond.schema.python import FILES, FOLDER


def main() -> None:
    """Write every file, after all texts were made."""
    texts = {name: text() for name, text in FILES.items()}
    for name, text in texts.items():
        (Path(FOLDER) / name).write_text(text, "utf-8")


main()
