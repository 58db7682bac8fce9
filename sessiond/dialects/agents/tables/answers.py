"""The answers of a session of Claude Code: the group of each in the tree, and the usage it stated.

An answer may go on at any later line, for copies come again after a compaction. So all answers are
kept, as a row of numbers each.
"""

from __future__ import annotations

from array import array
from typing import Final

from sessiond.dialects.agents.replies import StatedUsage
from sessiond.dialects.agents.tables.ids import IdTable
from sessiond.model.usage import Usage

_NOTHING: Final = -1


class Answers:
    """The answers so far, by the ids of their responses; about 90 bytes for each.

    Number 0 stands for an answer without an id, which has one part.
    """

    def __init__(self) -> None:
        self._numbers = IdTable(keeps_names=False)
        self._groups = array("i", (0,))
        # The most output that a part stated; below 0 while no part has stated usage.
        self._outputs = array("q", (_NOTHING,))
        self._input = array("q", (0,))
        self._output = array("q", (0,))
        self._cache_read = array("q", (0,))
        self._cache_write = array("q", (0,))
        self._total = array("q", (0,))
        self._cost = array("d", (0,))

    def find(self, response_id: str) -> int:
        """Return the number of an answer; 0 if there was no part of the answer yet."""
        return self._numbers.last(response_id) if response_id else 0

    def add(self, response_id: str) -> int:
        """Take the first part of an answer; return the answer's number."""
        self._groups.append(0)
        self._outputs.append(_NOTHING)
        columns = (self._input, self._output, self._cache_read, self._cache_write, self._total)
        for column in columns:
            column.append(0)
        self._cost.append(0)
        return self._numbers.add(response_id)

    def group(self, number: int) -> int:
        """Return the group of an answer."""
        return self._groups[number]

    def set_group(self, number: int, group: int) -> None:
        """Set the group of an answer: its later parts belong there."""
        self._groups[number] = group

    def stated(self, number: int) -> StatedUsage:
        """Return the usage that an answer has stated so far."""
        if self._outputs[number] == _NOTHING:
            return StatedUsage()
        usage = Usage(
            self._input[number],
            self._output[number],
            self._cache_read[number],
            self._cache_write[number],
            self._total[number],
            self._cost[number],
        )
        return StatedUsage(usage, self._outputs[number])

    def total(self, number: int) -> int:
        """Return the tokens of the whole request, as far as the parts of an answer stated them."""
        return self._total[number]

    def keep(self, number: int, stated: StatedUsage) -> None:
        """Keep the usage that an answer has stated so far."""
        usage = stated.stated
        if usage is None or not number:
            return
        self._outputs[number] = stated.output
        self._input[number] = usage.input_tokens
        self._output[number] = usage.output_tokens
        self._cache_read[number] = usage.cache_read_tokens
        self._cache_write[number] = usage.cache_write_tokens
        self._total[number] = usage.total_tokens
        self._cost[number] = usage.cost
