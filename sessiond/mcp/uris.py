"""URIs of the resources: `sessiond://session/ID`, parts of the session, and where to read on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "": ("upto",),
    "context": (),
    "tree": ("cursor",),
    "entries": ("before",),
    "entry": ("offset",),
}
"""Parts of a session, each with the parameters of its URI."""

_HINT: Final = (
    "use sessiond://session/ID, or one of its parts: /context, /tree, /entries, /entry/ENTRY_ID"
)


class BadUri(ValueError):
    """URI that names no resource; the text tells which URIs there are."""


@dataclass(frozen=True, slots=True)
class Address:
    """Parsed URI: a session, the part of the session, and where to read on."""

    session_id: str
    part: str = ""
    entry_id: str = ""
    at: str = ""

    @property
    def number(self) -> int:
        """Return `at` as a number; 0 if `at` is empty."""
        if self.at and not (self.at.isascii() and self.at.isdigit() and len(self.at) <= 15):
            raise BadUri(f"a position is a number from 0; {_HINT}")
        return int(self.at or "0")


def format_uri(address: Address) -> str:
    """Return the URI of an address."""
    words = ["sessiond://session", quote(address.session_id, safe="")]
    if address.part:
        words.append(address.part)
    if address.entry_id:
        words.append(quote(address.entry_id, safe=""))
    query = f"?{urlencode({PARTS[address.part][0]: address.at})}" if address.at else ""
    return "/".join(words) + query


def parse_uri(uri: str) -> Address:
    """Return the address that a URI names. Raise BadUri."""
    try:
        split = urlsplit(uri)
    except ValueError:
        raise BadUri(f"not a URI; {_HINT}") from None
    session_id, *below = [unquote(word) for word in split.path.removeprefix("/").split("/")]
    part = below[0] if below else ""
    count = 2 if part == "entry" else min(len(below), 1)
    named = all((session_id, *below))
    if (split.scheme, split.netloc) != ("sessiond", "session") or part not in PARTS or not named:
        raise BadUri(f"no resource has this URI; {_HINT}")
    if len(below) != count:
        raise BadUri(f"wrong number of parts; {_HINT}")
    given = dict(parse_qsl(split.query, keep_blank_values=True))
    if unknown := given.keys() - set(PARTS[part]):
        raise BadUri(f"unknown parameter {min(unknown)!r}; {_HINT}")
    at = next(iter(given.values()), "")
    address = Address(session_id, part, below[1] if part == "entry" else "", at)
    if part in {"entries", "entry"}:
        _ = address.number
    return address
