"""Second reader of Claude Code's sessions, written from the facts on the format: clear and slow.

Law: this module knows nothing of sessiond, and holds the whole session in memory.

Choices where the facts are silent: results stand in the order of the calls (as sessiond's design has it),
not of the file; a queued prompt is a user's message and other attachments are none; lines of a local
command and of a failed request are messages; a pin at a kept line that was not written again is before
the boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.kit.agent_files.said import (
    Json,
    Reading,
    Role,
    Said,
    added,
    as_list,
    as_number,
    as_object,
    as_text,
    parsed,
)

TREE_TYPES: Final = ("user", "assistant", "system", "attachment", "progress")
USAGE_NAMES: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
}
# Texts of the program itself, which no list takes as a title.
NO_PROMPT: Final = (
    "<local-command-stdout>",
    "<session-start-hook>",
    "<tick>",
    "<goal>",
    "[Request interrupted by user",
    "<ide_opened_file>",
    "<ide_selection>",
)
# Texts that a list shows as events, not as prompts.
EVENTS: Final = ("<bash-input>", "<bash-stdout>", "<task-notification>", "<command-name>")


@dataclass(frozen=True)
class Node:
    """A line of the tree; `place` is its last one in the file, for a line can be written again."""

    uuid: str
    place: int
    line: Json
    main: bool

    @property
    def parent(self) -> str | None:
        """Return the line above, as the file says."""
        return as_text(self.line.get("parentUuid"))

    @property
    def role(self) -> str:
        """Return the type of the line."""
        return str(self.line["type"])

    @property
    def message(self) -> Json:
        """Return the API's message."""
        return as_object(self.line.get("message"))

    @property
    def answer(self) -> str:
        """Return the id of the reply that the line is a part of."""
        return as_text(self.message.get("id")) or self.uuid

    @property
    def blocks(self) -> list[Json]:
        """Return the blocks of the message; a plain text is one block."""
        content = self.message.get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return [as_object(one) for one in as_list(content)]

    @property
    def is_boundary(self) -> bool:
        """Return whether the line is the boundary of a compaction."""
        return self.role == "system" and self.line.get("subtype") == "compact_boundary"

    @property
    def queued(self) -> str | None:
        """Return the prompt that was sent while the model worked."""
        attachment = as_object(self.line.get("attachment"))
        if self.role != "attachment" or attachment.get("type") != "queued_command":
            return None
        return as_text(attachment.get("prompt"))


@dataclass
class Talk:
    """Lines of one session, sorted by what they are for."""

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    last_prompts: list[tuple[int, Json]] = field(default_factory=list[tuple[int, Json]])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """Last value of each title and of the tag."""
    bad: int = 0
    lines: Sequence[bytes] = ()
    before: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Leaf before the first line that names a missing line as its parent, by the missing uuid."""

    def main_nodes(self) -> list[Node]:
        """Return the user and assistant lines of the main chain, in the order of the file."""
        found = [one for one in self.nodes.values() if one.main and one.role in TREE_TYPES[:2]]
        return sorted(found, key=lambda one: one.place)


def read_claude(lines: Sequence[bytes], meta: Json | None = None) -> Reading:
    """Return what the whole lines of a session say; `meta` is a subagent's meta file."""
    talk = _sorted(lines)
    leaf = _leaf(talk)
    chain, named = _chain(talk, leaf)
    context = _messages(talk, chain)
    usage, aside = _usage(talk)
    main = talk.main_nodes()
    prompts = [one for one in main if _prompt_text(one) is not None]
    cwds = [as_text(one.line.get("cwd")) for one in talk.nodes.values()]
    models = [as_text(one.message.get("model")) for one in main if one.role == "assistant"]
    stated = talk.notes.get("customTitle") or talk.notes.get("aiTitle")
    described = as_text(as_object(meta).get("description"))
    parents = {one.parent for one in talk.nodes.values()} - {None}
    return Reading(
        leaf=leaf,
        title=described or stated or _other_title(talk, main),
        stated_title=described or stated,
        context=tuple(context),
        usage=usage,
        tree={one.uuid: one.parent for one in talk.nodes.values()},
        model=next((one for one in reversed(models) if one not in (None, "<synthetic>")), None),
        cwd=next((one for one in cwds if one), None),
        prompts=tuple(one.uuid for one in prompts),
        context_tokens=_context_tokens(talk, chain),
        bad=talk.bad,
        missing=frozenset(one for one in parents | named if one not in talk.nodes and one),
        more_usage={"aside": aside},
        tag=talk.notes.get("tag") or None,
    )


def _sorted(lines: Sequence[bytes]) -> Talk:
    """Return the lines of a session by their use; of two lines with one uuid the later wins."""
    talk = Talk(lines=lines)
    own_file: bool | None = None
    for place, line in enumerate(parsed(lines)):
        if line is None:
            talk.bad += 1
            continue
        kind, uuid = line.get("type"), as_text(line.get("uuid"))
        if kind in TREE_TYPES and uuid is not None:
            aside = line.get("isSidechain") is True
            if own_file is None:
                own_file = aside
            main = (own_file or not aside) and not line.get("teamName")
            talk.nodes[uuid] = Node(uuid, place, line, main)
        elif kind == "last-prompt":
            talk.last_prompts.append((place, line))
        for name in ("customTitle", "aiTitle", "summary", "lastPrompt", "tag"):
            wanted = {"customTitle": "custom-title", "aiTitle": "ai-title"}.get(name, name)
            said = as_text(line.get(name))
            if said is not None and kind == wanted.replace("lastPrompt", "last-prompt"):
                talk.notes[name] = said
    return talk


# The leaf.


def _leaf(talk: Talk) -> str | None:
    """Return the end of the talk: the newest pin, or the newest main line that follows the pin."""
    queued = (one for one in talk.nodes.values() if one.queued is not None and one.main)
    newest = max((*talk.main_nodes(), *queued), key=lambda one: one.place, default=None)
    for place, pin in reversed(talk.last_prompts[-1:]):
        if newest is not None and newest.place > place:
            break
        pinned = as_text(pin.get("leafUuid"))
        if pinned is None and pin.get("explicit") is True:
            return None
        found = _message_above(talk, pinned)
        if found is not None:
            return found
    return newest.uuid if newest is not None else None


def _message_above(talk: Talk, uuid: str | None) -> str | None:
    """Return the line itself if it is a message or a queued prompt, else the nearest one above."""
    for one in _walk(talk, uuid):
        if one.role in TREE_TYPES[:2] or one.queued is not None:
            return one.uuid
    return None


def _walk(talk: Talk, uuid: str | None) -> list[Node]:
    """Return the line and all lines above, up to a root or the start of a cycle.

    Above a gap come the leaf before the gap and the lines above the leaf.
    """
    found: dict[str, Node] = {}
    below: Node | None = None
    while uuid is not None and uuid not in found:
        if uuid not in talk.nodes:
            uuid = _beside_lost_call(talk, uuid, below) or _before_gap(talk, uuid)
            if uuid is None or uuid in found:
                break
        below = found[uuid] = talk.nodes[uuid]
        uuid = below.parent
    return list(found.values())


def _beside_lost_call(talk: Talk, missing: str, below: Node | None) -> str | None:
    """Return the last line of the answer of a missing call; None unless `below` is the call's result.

    Another line of the answer names the missing line, too.
    """
    if below is None or not any(one.get("type") == "tool_result" for one in below.blocks):
        return None
    earlier = [one for one in talk.main_nodes() if one.place < below.place]
    beside = [one for one in earlier if one.parent == missing and one.role == "assistant"]
    return next(
        (one.uuid for one in earlier[::-1] if beside and one.answer == beside[0].answer), None
    )


def _before_gap(talk: Talk, missing: str) -> str | None:
    """Return the leaf of the lines before the first line of the talk that names a missing one."""
    if missing not in talk.before:
        naming = [one for one in talk.nodes.values() if one.parent == missing and one.main]
        earlier = _sorted(talk.lines[: min((one.place for one in naming), default=0)])
        last = max((one.place for one in earlier.main_nodes()), default=-1)
        begun = [
            one.uuid
            for one in earlier.nodes.values()
            if one.is_boundary and one.main and one.place > last
        ]
        if begun and any(one.line.get("isCompactSummary") is True for one in naming):
            # A line between a boundary and its summary is missing.
            talk.before[missing] = begun[-1]
            return begun[-1]
        queued = [one for one in earlier.nodes.values() if one.queued is not None and one.main]
        leaf = _leaf(earlier)
        last = max(
            (place for place, _ in earlier.last_prompts),
            default=-1 if leaf is None else earlier.nodes[leaf].place,
        )
        if queued and queued[-1].place > max(
            last, -1 if leaf is None else earlier.nodes[leaf].place
        ):
            leaf = queued[-1].uuid
        talk.before[missing] = leaf
    return talk.before[missing]


# The chain of lines that the model sees.


@dataclass
class Chain:
    """Lines of the context in order, the boundary that cuts it, and the lines that the boundary kept."""

    nodes: list[Node]
    boundary: Node | None = None
    kept: list[str] = field(default_factory=list[str])

    def allows(self, node: Node) -> bool:
        """Return whether a line is not compacted away."""
        if self.boundary is None:
            return True
        return node.place > self.boundary.place or node.uuid in self.kept


def _chain(talk: Talk, leaf: str | None) -> tuple[Chain, set[str]]:
    """Return the lines from the boundary, or from the root, to the leaf, and the kept uuids of all."""
    kept_by = {
        one.uuid: _kept(talk, one) for one in talk.nodes.values() if one.is_boundary and one.main
    }
    named = {uuid for kept in kept_by.values() for uuid in kept}
    path: list[Node] = []
    below: Node | None = None
    for node in _walk(talk, leaf):
        boundary = node if node.uuid in kept_by else _crossed(talk, kept_by, node, below)
        if boundary is not None:
            chain = _after_boundary(talk, boundary, kept_by[boundary.uuid], path[::-1])
            return chain, named
        path.append(node)
        below = node
    return Chain(path[::-1]), named


def _kept(talk: Talk, boundary: Node) -> list[str]:
    """Return the uuids that a compaction kept: its list, else its segment from tail up to head.

    Where the head is missing, the segment begins with the line below.
    """
    about = as_object(boundary.line.get("compactMetadata"))
    listed = as_list(as_object(about.get("preservedMessages")).get("uuids"))
    if listed:
        return [str(one) for one in listed]
    segment = as_object(about.get("preservedSegment"))
    found: list[str] = []
    for node in _walk(talk, as_text(segment.get("tailUuid"))):
        if node.role in TREE_TYPES[:2]:
            found.append(node.uuid)
        head = segment.get("headUuid")
        if node.uuid == head or (node.parent == head and head not in talk.nodes):
            break
    return found[::-1]


def _crossed(
    talk: Talk, kept_by: dict[str, list[str]], node: Node, below: Node | None
) -> Node | None:
    """Return the newest boundary between a kept line and the line below; below a leaf is nothing.

    A line that was written after a boundary, below a line that the boundary kept, is after the summary.
    """
    found: Node | None = None
    for uuid, kept in kept_by.items():
        boundary = talk.nodes[uuid]
        later = node if below is None else below
        if node.uuid not in kept or later.place < boundary.place:
            continue
        if below is not None and below.uuid in kept:
            continue
        if not _summaries(talk, boundary):
            # Nothing takes the place of what a boundary cuts off.
            continue
        if found is None or boundary.place > found.place:
            found = boundary
    return found


def _summaries(talk: Talk, boundary: Node) -> list[Node]:
    """Return the summaries below a boundary."""
    return [
        one
        for one in talk.main_nodes()
        if one.line.get("isCompactSummary") is True and one.parent == boundary.uuid
    ]


def _after_boundary(talk: Talk, boundary: Node, kept: list[str], path: list[Node]) -> Chain:
    """Return boundary, summary, the kept lines in their order, and the lines of the path that are neither."""
    head = [boundary, *_summaries(talk, boundary)[-1:]]
    there = [talk.nodes[uuid] for uuid in kept if uuid in talk.nodes]
    first = {one.uuid for one in head + there}
    later = [one for one in path if one.uuid not in first]
    return Chain(head + there + later, boundary, kept)


# Messages.


def _messages(talk: Talk, chain: Chain) -> list[Said]:
    """Return the messages of a chain: replies whole, results behind their reply in the order of its calls."""
    allowed = sorted(
        (one for one in talk.nodes.values() if one.main and chain.allows(one)),
        key=lambda one: one.place,
    )
    found: list[Said] = []
    replies: set[str] = set()
    results: set[tuple[str, str]] = set()
    on_chain = {one.uuid for one in chain.nodes}
    for node in chain.nodes:
        if node.is_boundary:
            found.append(Said("marker", (node.uuid,)))
        elif node.queued is not None:
            found.append(Said("user", (node.uuid,), (node.queued,)))
        elif node.role == "user":
            found += _user_messages(node, results)
        elif node.role == "assistant" and node.answer not in replies:
            replies.add(node.answer)
            parts = [
                one for one in allowed if one.role == "assistant" and one.answer == node.answer
            ]
            # A line that was written again stands where it stood, whichever of the two is whole.
            reply = _reply(sorted(parts, key=lambda one: len(_walk(talk, one.uuid))))
            found.append(reply)
            for asked in reply.calls:
                found += _result_of(asked, allowed, on_chain, results)
    return found


def _reply(parts: Sequence[Node]) -> Said:
    """Return one reply from all its lines."""
    blocks = [block for one in parts for block in one.blocks]
    return Said(
        "assistant",
        tuple(one.uuid for one in parts),
        tuple(str(one["text"]) for one in blocks if one.get("type") == "text"),
        tuple(str(one["id"]) for one in blocks if one.get("type") == "tool_use"),
        tuple(str(one["thinking"]) for one in blocks if one.get("type") == "thinking"),
    )


def _result_of(
    asked: str, allowed: Sequence[Node], on_chain: set[str], results: set[tuple[str, str]]
) -> list[Said]:
    """Return the result of a call, as a list of one; a line of the chain comes before any other line."""
    found = [
        (node, block)
        for node in allowed
        for block in node.blocks
        if node.role == "user" and block.get("tool_use_id") == asked
    ]
    results.update((node.uuid, asked) for node, _ in found)
    best = sorted(found, key=lambda one: one[0].uuid in on_chain)[-1:]
    return [_tool(node, block) for node, block in best]


def _tool(node: Node, block: Json) -> Said:
    """Return the result of one call."""
    content = block.get("content")
    inner: list[Json] = (
        [{"type": "text", "text": content}]
        if isinstance(content, str)
        else [as_object(one) for one in as_list(content)]
    )
    return Said(
        "tool",
        (node.uuid,),
        tuple(str(one["text"]) for one in inner if one.get("type") == "text"),
        (str(block["tool_use_id"]),),
        images=sum(one.get("type") == "image" for one in inner),
        failed=block.get("is_error") is True,
    )


def _user_messages(node: Node, results: set[tuple[str, str]]) -> list[Said]:
    """Return the results of a user line that no reply has taken, and then its words."""
    found: list[Said] = []
    texts: list[str] = []
    images = 0
    for block in node.blocks:
        if block.get("type") == "tool_result":
            if (node.uuid, str(block["tool_use_id"])) not in results:
                found.append(_tool(node, block))
        elif block.get("type") == "text":
            texts.append(str(block["text"]))
        else:
            images += block.get("type") == "image"
    if texts or images:
        role: Role = "summary" if node.line.get("isCompactSummary") is True else "user"
        found.append(Said(role, (node.uuid,), tuple(texts), images=images))
    return found


# Sums and titles.


def _numbers(node: Node) -> dict[str, int]:
    usage = as_object(node.message.get("usage"))
    return {short: as_number(usage.get(name)) for short, name in USAGE_NAMES.items()}


def _usage(talk: Talk) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tokens of the main lines and of the lines of subagents, each reply once."""
    best: dict[str, Node] = {}
    for node in sorted(talk.nodes.values(), key=lambda one: one.place):
        if node.role == "assistant":
            old = best.get(node.answer)
            if old is None or _numbers(node)["output"] >= _numbers(old)["output"]:
                best[node.answer] = node
    sums = [dict.fromkeys(USAGE_NAMES, 0), dict.fromkeys(USAGE_NAMES, 0)]
    for node in best.values():
        added(sums[0 if node.main else 1], _numbers(node))
    return sums[0], sums[1]


def _context_tokens(talk: Talk, chain: Chain) -> int | None:
    """Return the size of the context by the last reply that was made after the boundary."""
    for node in reversed(chain.nodes):
        if node.role == "assistant" and node.uuid not in chain.kept:
            parts = [one for one in talk.nodes.values() if one.answer == node.answer]
            return sum(
                max((_numbers(one) for one in parts), key=lambda one: one["output"]).values()
            )
    return None


def _prompt_text(node: Node) -> str | None:
    """Return the words of a user's prompt, and None for any other line."""
    flags = ("isMeta", "isCompactSummary")
    if node.role != "user" or any(node.line.get(name) is True for name in flags):
        return None
    if any(block.get("type") == "tool_result" for block in node.blocks):
        return None
    said = " ".join(str(one["text"]) for one in node.blocks if one.get("type") == "text")
    return None if said.startswith(NO_PROMPT + EVENTS) else said


def _other_title(talk: Talk, main: Sequence[Node]) -> str | None:
    """Return the last prompt, else the old kind of title, else the first prompt or command."""
    said = talk.notes.get("lastPrompt") or talk.notes.get("summary")
    if said:
        return said
    texts = [text for text in map(_prompt_text, main) if text]
    commands = [
        str(block["text"])
        for one in main
        for block in one.blocks
        if one.role == "user" and str(block.get("text", "")).startswith("<command-name>")
    ]
    return next((one[:200] for one in texts + commands), None)
