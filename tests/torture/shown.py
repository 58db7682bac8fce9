"""Comparisons of the replayed file with the answers that clients got.

Law: each test takes the replay, the params of a request and the sight of its answer (sights.py).
A test returns a misfit in words, or None if all fits.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from tests.torture.replay import RECORDS, Replay
from tests.torture.sights import chain

__all__ = [
    "context",
    "entries",
    "entry",
    "heads",
    "held",
    "labels",
    "leaf",
    "path",
    "session",
    "tree",
]

Params = dict[str, Any]


def leaf(replay: Replay, head: str, told: dict[str, Any], known: int) -> str | None:
    """Compare the leaf that an answer names with the head; `known` as in `Replay.staged`."""
    if any(told["leaf_id"] == leaf_id for leaf_id, _ in replay.staged(head, known)):
        return None
    if head not in replay.heads:
        return f"{head} is not there"
    return f"{head} is at {replay.leaf_id(head)}, not {told['leaf_id']}"


def held(
    replay: Replay, head: str, expected: dict[str, Any], known: int, *, holds: bool
) -> str | None:
    """Compare the `expected` of a call with the head: with `holds` it must fit, else it must not.

    `known` is as in `Replay.staged`.
    """
    for leaf_id, seq in replay.staged(head, known):
        same = {"leaf_id": leaf_id, "seq": seq} | expected == {"leaf_id": leaf_id, "seq": seq}
        if same == holds:
            return None
    return "it was not so" if holds else "it was so"


def entries(replay: Replay, params: Params, sight: Params) -> str | None:
    rows = [[row.seq, row.digest] for row in replay.rows[: replay.seq] if row.is_entry]
    if "before_seq" in params:
        wanted = [row for row in rows if row[0] < params["before_seq"]][::-1]
    else:
        wanted = [row for row in rows if row[0] > params["after_seq"]]
    shown = sight["rows"]
    if shown != wanted[: len(shown)]:
        return "the entries are others"
    complete = len(shown) == len(wanted)
    if not complete and len(shown) < params["limit"] and sight["next"] is None:
        return f"{len(wanted) - len(shown)} entries are missing"
    return None


def _leaf(replay: Replay, params: Params) -> int | None:
    """Return the seq that the params name, by an entry or by a head; None without that head."""
    if "entry_id" in params:
        return replay.node(params["entry_id"])
    head = replay.heads.get(params.get("head", "main"))
    return None if head is None else head[0]


def context(replay: Replay, params: Params, sight: Params) -> str | None:
    leaf = _leaf(replay, params)
    if leaf is None:
        return "there is no such head"
    if replay.id_of(leaf) != sight["leaf_id"]:
        return f"the leaf is {replay.id_of(leaf)}, not {sight['leaf_id']}"
    messages = replay.context(leaf)
    unchanged = _unchanged(replay, params.get("known"), messages)
    if sight["unchanged"] != unchanged:
        return f"{unchanged} messages are unchanged, not {sight['unchanged']}"
    rest = messages[unchanged:]
    if len(rest) != sight["count"]:
        return f"{len(rest)} messages follow, not {sight['count']}"
    same = chain([source for source, _ in rest]) == sight["sources"]
    if not same or chain([text for _, text in rest]) != sight["messages"]:
        return "the messages are others"
    return None


def _unchanged(
    replay: Replay, known: dict[str, Any] | None, messages: list[tuple[str, str]]
) -> int:
    leaf = replay.node(known["leaf_id"]) if known and known["leaf_id"] else 0
    if not leaf or known is None:
        return 0
    held = replay.context(leaf)
    if len(held) != known["count"]:
        return 0
    pairs = zip(messages, held, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(messages), len(held)))


def entry(replay: Replay, params: Params, sight: Params) -> str | None:
    return placed(replay, sight["row"])


def tree(replay: Replay, params: Params, sight: Params) -> str | None:
    active = set(replay.path(replay.heads["main"][0]))
    for shown, seq in zip(sight["nodes"], islice(replay.preorder(), params["limit"]), strict=False):
        row = replay.rows[seq - 1]
        stands = replay.id_of(replay.parents[seq])
        parents = [row.parent_id, stands if stands != row.parent_id else "as it says"]
        label = replay.labels.get(seq)
        children = len(replay.children[seq])
        if shown != [row.id, seq, row.type, seq in active, label, children, *parents]:
            return f"{seq} is shown otherwise"
    nodes = len(replay.children) - 1
    if len(sight["nodes"]) < min(params["limit"], nodes):
        return f"{len(sight['nodes'])} nodes are shown of {nodes}"
    return None


def session(replay: Replay, params: Params, sight: Params) -> str | None:
    if sight["leaf_id"] != replay.leaf_id("main"):
        return f"main is at {replay.leaf_id('main')}, not {sight['leaf_id']}"
    if sight["message_total"] != replay.message_total:
        return f"{replay.message_total} messages, not {sight['message_total']}"
    if sight["title"] != replay.title:
        return "the title is another"
    return heads(replay, params, sight)


def heads(replay: Replay, params: Params, sight: Params) -> str | None:
    told = {one["name"]: (one["leaf_id"], one["seq"]) for one in sight["heads"]}
    there = {name: (replay.id_of(leaf), seq) for name, (leaf, seq) in replay.heads.items()}
    if told == there:
        return None
    names = sorted(name for name in told.keys() | there.keys() if told.get(name) != there.get(name))
    return f"the heads {names} are elsewhere"


def path(replay: Replay, params: Params, sight: Params) -> str | None:
    leaf = _leaf(replay, params)
    if leaf is None:
        return "there is no such head"
    path = replay.path(leaf)
    part = path[-params["limit"] :] if params.get("from_end") else path[: params["limit"]]
    if [row[0] for row in sight["rows"]] != part or sight["more"] != (len(part) < len(path)):
        return "the path is another"
    return next((wrong for row in sight["rows"] if (wrong := placed(replay, row))), None)


def placed(replay: Replay, shown: list[Any]) -> str | None:
    seq, digest, children, label = shown
    if seq > replay.seq or replay.rows[seq - 1].digest != digest:
        return f"another entry is at {seq}"
    there = [replay.id_of(child) for child in replay.children.get(seq, ())]
    if children != (there if isinstance(children, list) else len(there)):
        return f"the children of {seq} are others"
    if label != (None if replay.rows[seq - 1].type in RECORDS else replay.labels.get(seq)):
        return f"the label of {seq} is another"
    return None


def labels(replay: Replay, params: Params, sight: Params) -> str | None:
    there = [[replay.id_of(seq), replay.labels[seq]] for seq in sorted(replay.labels)]
    return None if sight["labels"] == there else "the labels are others"
