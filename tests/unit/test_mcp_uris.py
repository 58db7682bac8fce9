"""URIs of the MCP server's resources."""

from __future__ import annotations

import pytest

from sessiond.mcp.uris import Address, BadUri, format_uri, parse_uri


@pytest.mark.parametrize(
    "address",
    [
        Address("s-1"),
        Address("s-1", at="e 1&x"),
        Address("s-1", "context"),
        Address("s-1", "tree", at="4:1"),
        Address("s-1", "entries", at="7"),
        Address("s-1", "entry", "e/1?", "65536"),
    ],
)
def test_a_formatted_address_is_parsed_back(address: Address) -> None:
    assert parse_uri(format_uri(address)) == address


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "file:///x",
        "sessiond://session/",
        "sessiond://session/s/no",
        "sessiond://session/s/entry",
        "sessiond://session/s/tree/x",
        "sessiond://session/s?a=1",
        "sessiond://[",
        "sessiond://x/s",
        "sessiond://session/s/entries?before=-1",
        "sessiond://session/s/entry/e?offset=1e3",
    ],
)
def test_a_bad_uri_is_refused_with_the_uris_that_exist(uri: str) -> None:
    with pytest.raises(BadUri, match="sessiond://session/ID"):
        parse_uri(uri)
