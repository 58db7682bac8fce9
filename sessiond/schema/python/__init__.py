"""The Python client's methods, parameters and results, as the files that hold them.

Law: a program writes everything that the schema can say. `names` has what the schema cannot
know: the client's name of a type, the order of its fields, and what an older daemon leaves out.

    methods.py   methods of the clients
    structs.py   results, notifications, requests
    spelling.py  JSON Schema to annotations
    names.py     what the schema cannot know: names and orders
    calls.py     helpers' types that the schema does not say
    facts.py     methods, bounds and codes that the client decides by
    exports.py   names that the package exports
    layout.py    lines as the formatter leaves them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sessiond.schema.python.exports import exports_text
from sessiond.schema.python.facts import facts_text
from sessiond.schema.python.methods import methods_text, options_text
from sessiond.schema.python.structs import messages_text, requests_text, results_text

FOLDER: Final = "clients/python/sessiond_client"

FILES: Final[dict[str, Callable[[], str]]] = {
    "generated/__init__.py": lambda: (
        '"""Modules that are generated from the protocol; run: make schema"""\n'
    ),
    "exports.py": exports_text,
    "generated/facts.py": facts_text,
    "generated/messages.py": messages_text,
    "generated/results.py": results_text,
    "generated/requests.py": requests_text,
    "generated/options.py": options_text,
    "generated/async_methods.py": lambda: methods_text(is_async=True),
    "generated/blocking_methods.py": lambda: methods_text(is_async=False),
}
"""Text of each file, by its path in the folder; equal in every run."""
