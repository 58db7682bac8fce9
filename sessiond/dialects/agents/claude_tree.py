"""The tree of a session of Claude Code, as its model sees the tree, in whole numbers.

Each line with a `uuid` has a position, from 1. A line that says something is a node; any other line
only links the lines below it to the node above it. One answer is written in several lines, one for
each block, that share `message.id`: a group. The result of a parallel call stands below its own call
in the file, and below the group's last node here. A compaction is a boundary, a summary below the
boundary, and a list of kept lines before the boundary: here the summary stands below the last kept
node, and what the file has below a kept node stands below the summary.

Where a line names one above it that the file lacks, the path goes on at the node that was the last one
when a line named that uuid first: the lines that name one missing uuid are a fork there.

Law: a place is decided when its line comes, from the lines before; it never changes.
"""

from __future__ import annotations

from array import array
from typing import Final

from msgspec import Struct

from sessiond.dialects.agents.tables.ids import IdTable

_MISSING: Final = -1
_NO_GROUP: Final = 0


class TreeLine(Struct, frozen=True):
    """A line of the tree: its uuid, the uuid of the line above, and the id of its entry.

    `mark` is a number that a line has in common with its copies.
    """

    uuid: str
    parent: str | None
    mark: int
    entry_id: str = ""


class Place(Struct, frozen=True):
    """The place of a node: the node above it, 0 for none.

    Where the file lacks the line above, `missing` is that line's uuid, and `above` the node before the gap.
    """

    above: int = 0
    missing: str | None = None
    group: int = _NO_GROUP


class Boundary(Struct, frozen=True):
    """The boundary of a compaction, until its summary comes."""

    kept: tuple[str, ...] | None = None
    """Lines that the compaction keeps; None if the segment tells."""
    segment: tuple[str | None, str | None] = (None, None)
    before: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


class Kept(Struct, frozen=True):
    """The nodes that a compaction keeps: the path from `first` to `end`, or only `nodes` of the path."""

    first: int = 0
    end: int = 0
    nodes: tuple[int, ...] | None = None
    missing: tuple[str, ...] = ()


class ClaudeTree:
    """Places of the lines so far; a few numbers for each line, and its id."""

    def __init__(self) -> None:
        # The last position of each uuid, and the id of the entry at each position.
        self._ids = IdTable()
        self.head = 0
        """The node at which the agent would go on; 0 before the first."""
        # What a copy of a line has in common with the line.
        self._marks = array("q", (0,))
        self._named = array("i", (0,))
        # The node or boundary that a line stands for; below 0 the line under which a line is missing.
        self._stands = array("i", (0,))
        self._above = array("i", (0,))
        self._groups = array("i", (_NO_GROUP,))
        # The last node of each group.
        self._ends = array("i", (0,))
        # The uuid that the file lacks above a line.
        self._gaps: dict[int, str] = {}
        # The last node before the first line below each uuid that the file lacks.
        self._before: dict[str, int] = {}
        # The answer of which each such uuid was a line.
        self._lost: dict[str, int] = {}
        self._boundaries: set[int] = set()
        # Boundaries whose summary has not come yet.
        self._pending: dict[int, Boundary] = {}
        # The compaction below which that stands which the file has below a node or a boundary.
        self._moved: dict[int, int] = {}
        self._summaries: set[int] = set()
        # The summary of the compaction that keeps a line which has not come yet.
        self._kept_later: dict[str, int] = {}

    def __contains__(self, uuid: object) -> bool:
        """Return whether a line has this uuid."""
        return isinstance(uuid, str) and self._ids.last(uuid) > 0

    def id_of(self, at: int) -> str:
        """Return the id of the entry at a position; "" for 0."""
        return self._ids.name_of(at)

    # -- lines -------------------------------------------------------------------------------

    def is_copy(self, line: TreeLine) -> bool:
        """Return whether a line is a known line, written again.

        A second compaction writes kept lines again, some of them below its summary.
        """
        known = self._ids.last(line.uuid)
        if not known or self._marks[known] != line.mark:
            return False
        named = self._position(line.parent)
        if self._named[known] in {named, _MISSING}:
            return True
        node = max(0, self._stands[known])
        return named in self._summaries and self._go_on(self._end_of(node)) == self._go_on(named)

    def add_link(self, line: TreeLine, *, is_stranger: bool = False) -> None:
        """Take a line that says nothing; a stranger is no part of this file's conversation."""
        named = self._position(line.parent)
        at = self._add(line)
        if line.parent is not None and named == _MISSING:
            self._gaps[at] = line.parent
            if not is_stranger:
                self._before.setdefault(line.parent, self.head)
            self._stands[at] = -at
        else:
            self._stands[at] = self._stands[named]

    def add_boundary(self, line: TreeLine, found: Boundary) -> None:
        """Take the line that begins a compaction."""
        at = self._add(line)
        self._stands[at] = at
        self._boundaries.add(at)
        self._pending[at] = found

    def add_node(self, line: TreeLine, place: Place) -> int:
        """Take a line that says something, at its place; return its position."""
        at = self._add(line)
        self._stands[at] = self.head = at
        self._above[at] = place.above
        self._groups[at] = place.group
        if place.group:
            self._ends[place.group] = at
        if place.missing is not None:
            self._gaps[at] = place.missing
        summary = self._kept_later.pop(line.uuid, 0)
        if summary and self._go_on(summary) == place.above:
            # What follows the kept lines follows this one, too.
            self._moved[place.above] = at
        return at

    def new_group(self) -> int:
        """Return the group of a new answer."""
        self._ends.append(0)
        return len(self._ends) - 1

    def _add(self, line: TreeLine) -> int:
        self._named.append(self._position(line.parent))
        at = self._ids.add(line.uuid, line.entry_id)
        self._marks.append(line.mark)
        for column in (self._stands, self._above, self._groups):
            column.append(0)
        return at

    def _position(self, uuid: str | None) -> int:
        return 0 if uuid is None else self._ids.last(uuid) or _MISSING

    # -- places ------------------------------------------------------------------------------

    def below(self, parent: str | None) -> Place:
        """Return the place of a line below the line `parent`, with the group of that line's node."""
        stands, missing = self._found(parent)
        if missing is not None:
            stands = self._before.setdefault(missing, self.head)
        above = self._go_on(self._end_of(stands))
        # Below a boundary without a summary begins a new conversation.
        return Place(0 if above in self._boundaries else above, missing, self._groups[stands])

    def _found(self, name: str | None) -> tuple[int, str | None]:
        """Return the node or boundary that a line stands for, and the uuid of the line that is missing there."""
        met: set[int] = set()
        while (named := self._position(name)) != _MISSING:
            stands = self._stands[named]
            if stands >= 0:
                return stands, None
            if stands in met:
                # Links that name each other in a circle have nothing above them.
                break
            met.add(stands)
            # The line that was missing when the link came may be there now.
            name = self._gaps[-stands]
        return 0, name if named == _MISSING else None

    def lose(self, missing: str, group: int) -> None:
        """Take note that a line that the file lacks was a part of an answer, as the line below says."""
        self._lost.setdefault(missing, group)

    def of_lost(self, place: Place) -> Place:
        """Return the place of a result below a line that the file lacks: behind the answer of the line."""
        group = self._lost.get(place.missing or "", _NO_GROUP)
        return Place(self.in_group(group).above, place.missing, group) if group else place

    def in_group(self, group: int) -> Place:
        """Return the place behind the last node of a group."""
        return Place(self._go_on(self._ends[group]), None, group)

    def goes_on(self, group: int, place: Place) -> bool:
        """Return whether a line of an answer at this place belongs to the group of earlier lines."""
        at, end = place.above, self._ends[group]
        if not at:
            return True
        while at > end:
            at = self._above[at]
        return at == end

    def pinned(self, uuid: str | None) -> int:
        """Return the node that a leaf names; of a line that the file lacks, the node before the gap."""
        gap = self._before.get(uuid or "", 0)
        return self.node(uuid) or self._go_on(self._end_of(gap))

    def node(self, uuid: str | None) -> int:
        """Return the node that a line stands for, with its results; 0 if there is none."""
        return 0 if uuid is None or self._found(uuid)[1] is not None else self.below(uuid).above

    def _end_of(self, node: int) -> int:
        """Return the last node of the group of a node; the node itself if it has no group."""
        group = self._groups[node]
        return self._ends[group] if group else node

    def _go_on(self, node: int) -> int:
        """Return the node below which that stands which the file has below a node."""
        while node in self._moved:
            node = self._moved[node]
        return node

    # -- compactions -------------------------------------------------------------------------

    def boundary_of(self, parent: str | None) -> int:
        """Return the boundary of a summary below the line `parent`; 0 if there is none.

        Where the parent is wrong, as after a second compaction, the last boundary without a summary is
        the one.
        """
        stands = self._stands[max(0, self._position(parent))]
        return stands if stands in self._pending else max(self._pending, default=0)

    def add_summary(
        self, line: TreeLine, boundary: int, otherwise: Place
    ) -> tuple[Kept, Boundary | None]:
        """Take the summary of a compaction; return what the compaction keeps, and its boundary.

        `otherwise` is the place of a summary without a boundary.
        """
        found = self._pending.pop(boundary, None)
        kept = Kept() if found is None else self._kept_by(found)
        place = otherwise
        if kept.end:
            place = Place(kept.end)
        elif found is not None:
            place = Place(self.node(found.before) or self.head)
        at = self.add_node(line, place)
        self._summaries.add(at)
        if kept.end:
            path = kept.nodes or self._path(kept.end, frozenset({kept.first}))[0]
            self._moved.update(dict.fromkeys(path, at))
        if boundary:
            self._moved[boundary] = at
        self._kept_later.update(dict.fromkeys(kept.missing, at))
        return kept, found

    def above(self, at: int) -> int:
        """Return the node above a node; 0 for none."""
        return self._above[at]

    def _kept_by(self, found: Boundary) -> Kept:
        is_segment = found.kept is None
        uuids = [uuid for uuid in found.kept or found.segment if uuid is not None]
        missing = tuple(uuid for uuid in uuids if uuid not in self)
        nodes = [node for uuid in uuids if (node := self._node_of(uuid))]
        if not nodes or (is_segment and not self._node_of(found.segment[1] or "")):
            return Kept(missing=missing)
        end = self._end_of(nodes[-1])
        if is_segment:
            return Kept(self._first_of(found.segment[0], end), end, None, missing)
        path, left = self._path(end, frozenset(nodes))
        groups = {self._groups[node] for node in nodes} - {_NO_GROUP}
        members = [at for at in path if at in nodes or self._groups[at] in groups]
        first = self._whole(members[-1])
        others = {at for at in path if at > first} - set(members) - self._summaries
        if not others and not left:
            return Kept(first, end, None, missing)
        more = self._path(members[-1], frozenset({first}))[0]
        return Kept(first, end, tuple(sorted({*nodes, *members, *more})), missing)

    def _first_of(self, head: str | None, end: int) -> int:
        """Return the first node of a segment up to `end`; of a lost head, the node below the head.

        A segment begins with the conversation if nothing tells where the segment begins.
        """
        path, left = self._path(end, frozenset({self._node_of(head or "") or _MISSING}))
        is_lost = left and head is not None
        below = [at for at in path if is_lost and self._gaps.get(at) == head]
        return self._whole((below or path)[-1])

    def _node_of(self, uuid: str) -> int:
        """Return the node that a kept line stands for; 0 if there is none."""
        stands = max(0, self._stands[max(0, self._position(uuid))])
        return 0 if stands in self._boundaries else stands

    def _path(self, end: int, nodes: frozenset[int]) -> tuple[list[int], frozenset[int]]:
        """Return the path from `end` up to the last of some nodes, and the nodes that are not on it."""
        path: list[int] = []
        left = set(nodes)
        at = end
        while at and left:
            path.append(at)
            left.discard(at)
            at = self._above[at]
        return path, frozenset(left)

    def _whole(self, node: int) -> int:
        """Return the first node of the part of a group in which a node is, on the path to the node."""
        group = self._groups[node]
        while group and self._groups[self._above[node]] == group:
            node = self._above[node]
        return node
