"""Prompts, which clients show as slash commands, and completion of the sessions that these name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp import types

from sessiond.by_now import by_now
from sessiond.mcp.pages import cut, describe, page_of_path
from sessiond.mcp.resources import TEMPLATES
from sessiond_client import Client, SessiondClientError
from sessiond_client.generated.results import Hit, SearchAnswer, SessionPage

COMPLETIONS_MAX: Final = 100
"""Most values that the protocol allows."""

_LISTED: Final = 1000
_TITLE_CHARS: Final = 200
_HITS: Final = 10
_HIT_CHARS: Final = 4096
_WORDS: Final = 6

PROMPTS: Final = (
    types.Prompt(
        name="resume",
        title="Go on with a session",
        description="The brief of a session and its newest messages.",
        arguments=[
            types.PromptArgument(
                name="session", description="Its id, a part of the id, or its title", required=True
            )
        ],
    ),
    types.Prompt(
        name="recall",
        title="Recall what was said",
        description="What the sessions say about a question, the best first.",
        arguments=[
            types.PromptArgument(name="question", description="Words to look for", required=True),
            types.PromptArgument(
                name="session", description="Only in this session: its id or its title"
            ),
        ],
    ),
)

_EXAMPLES: Final = {"session": "Fix the clock", "question": "Why is the clock late?"}


def schema_of(prompt: types.Prompt) -> dict[str, Any]:
    """Return the schema of the arguments of a prompt, which are texts."""
    arguments = prompt.arguments or []
    return {
        "properties": {
            one.name: {"type": "string", "examples": [_EXAMPLES[one.name]]} for one in arguments
        },
        "required": [one.name for one in arguments if one.required],
        "additionalProperties": False,
    }


async def get_prompt(
    client: Client, name: str, given: Mapping[str, str], **options: Any
) -> types.GetPromptResult:
    """Return the message of a prompt, from arguments that fit its schema. Raise SessiondClientError."""
    text = await (_resume if name == "resume" else _recall)(client, given, options)
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(messages=[message])


async def _resume(client: Client, given: Mapping[str, str], options: dict[str, Any]) -> str:
    info = await client.resolve(given["session"])
    await client.open(session_id=info.id, **options)
    brief = await client.brief(info.id)
    page = await page_of_path(client, info.id, None)
    parts = ["Go on with this session of a coding agent.", brief.context]
    parts[1] += f"\nFolder: {info.cwd}\nId: {info.id}"
    if page.older:
        parts.append(f"Older messages: read_session with session_id={info.id}, upto={page.older}")
    return "\n\n".join((*parts, "The newest messages:", *map(describe, page.entries)))


async def _recall(client: Client, given: Mapping[str, str], options: dict[str, Any]) -> str:
    where: dict[str, Any] = {**options, "limit": 100}
    if given.get("session"):
        where["session_id"] = (await client.resolve(given["session"])).id
    found, is_reading = dict[tuple[str, str | None], Hit](), False
    words = Counter[tuple[str, str | None]]()
    for query in _queries(given["question"]):
        answer = await by_now(client, SearchAnswer, "session/search", query=query, **where)
        is_reading = answer.looking is not None
        for hit in answer.hits:
            place = (hit.session_id, hit.entry_id)
            found.setdefault(place, hit)
            words[place] += 1
        if query == given["question"] and len(found) >= _HITS:
            break
    # An entry that holds more of the words comes first; of equal ones the one that was found first.
    best = sorted(found, key=lambda place: -words[place])[:_HITS]
    parts = [f"Answer from what earlier sessions say: {given['question']}"]
    if not best:
        parts.append("No session says anything about it.")
    if is_reading:
        parts.append("More sessions are being read: asked again in a moment, there may be more.")
    parts += [await _told(client, found[place]) for place in best]
    return "\n\n".join(parts)


def _queries(question: str) -> Iterator[str]:
    """Yield a question, then its longest words: few entries hold all words of a sentence."""
    yield question
    words = {word for word in question.replace('"', " ").split() if any(map(str.isalnum, word))}
    if len(words) > 1:
        yield from sorted(words, key=lambda word: (-len(word), word))[:_WORDS]


async def _told(client: Client, hit: Hit) -> str:
    """Return a hit with the beginning of its entry, and how to read on."""
    where = f"Session {hit.session_id}"
    if hit.entry_id is None:
        return f"{where}, its title or folder: {hit.snippet}"
    try:
        stored = await client.entry(hit.session_id, hit.entry_id)
    except SessiondClientError:
        return f"{where}: {hit.snippet}"
    text, more = cut(describe(stored.entry), _HIT_CHARS)
    rest = "\n[cut; read_entry has the whole entry]" if more else ""
    return f"{where}, found: {hit.snippet}\n{text}{rest}"


async def complete(
    client: Client,
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
) -> types.Completion:
    """Return the sessions that the beginning of an argument may mean; none for another argument."""
    if isinstance(ref, types.PromptReference):
        of_prompts = {prompt.name: prompt.arguments or [] for prompt in PROMPTS}
        is_session = argument.name == "session" and argument.name in {
            one.name for one in of_prompts.get(ref.name, [])
        }
        values = await _sessions(client, argument.value, titles=True) if is_session else []
    else:
        is_id = argument.name == "id" and ref.uri in {one.uri_template for one in TEMPLATES}
        values = await _sessions(client, argument.value, titles=False) if is_id else []
    return types.Completion(
        values=values[:COMPLETIONS_MAX], total=len(values), has_more=len(values) > COMPLETIONS_MAX
    )


async def _sessions(client: Client, begun: str, *, titles: bool) -> list[str]:
    """Return titles with a text, then ids that begin with it, of the sessions changed last.

    A title that several sessions have, or that is long, gives way to the id.
    """
    page = await by_now(client, SessionPage, "session/list", limit=_LISTED)
    named = Counter(info.title for info in page.sessions)
    key = begun.casefold()
    by_title, by_id = list[str](), list[str]()
    for info in page.sessions:
        title = info.title or ""
        is_named = titles and title != "" and len(title) <= _TITLE_CHARS and named[title] == 1
        if titles and key and key in title.casefold():
            by_title.append(title if is_named else info.id)
        elif info.id.startswith(begun):
            by_id.append(title if is_named and not begun else info.id)
    return by_title + by_id
