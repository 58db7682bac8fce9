"""Server of the Model Context Protocol: sessions as resources and tools, over stdio.

Law: every answer is a page of bounded size, and the daemon is asked for that page only. This
package reads no sessions and does not know the service; it asks through `sessiond_client`. Only
`server`, `resources`, `tools`, `calls`, `prompts`, `telling` and `watching` know the SDK.

    server.py     the SDK between a client and this package
    resources.py  the lists and the contents of resources
    tools.py      names, descriptions and schemas of the tools
    calls.py      the calls of tools
    arguments.py  what is wrong with the arguments of a call, and an example
    prompts.py    prompts, and completion of the sessions that these name
    telling.py    the log, told to a client that asked for it
    watching.py   notifications, at most one unsent for each URI
    pages.py      pages of a session: text of bounded size
    uris.py       the URIs of resources
"""
