"""Addresses of databases: which of them hold a secret, and may not be shown.

Law: an address is taken apart as libpq does it, since what libpq takes for a secret is one. libpq may not
be installed, and a later libpq may know more secrets, so a parameter is judged by its name.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_plus

# In libpq 18: password, sslpassword, oauth_client_secret, scram_client_key, scram_server_key.
_MARKS: Final = ("password", "secret", "token", "scram_")


def has_secret(address: str) -> bool:
    """Return whether a password or another secret stands in the address of a database."""
    _, _, rest = address.partition("://")
    before, _, query = rest.partition("?")
    # A password may hold a "?" where libpq reads one, and a "/" where a person forgot to quote the sign.
    logins = (part.rpartition("@")[0] for part in (rest.partition("/")[0], before))
    if any(":" in login for login in logins):
        return True
    names = (unquote_plus(pair.partition("=")[0]).lower() for pair in query.split("&"))
    return any(mark in name for name in names for mark in _MARKS)
