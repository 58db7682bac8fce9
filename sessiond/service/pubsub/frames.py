"""Frames of events: each frame is made once for all subscribers with equal wishes.

A frame that no subscriber wants is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sessiond.model.row import Kind, Rules
from sessiond.service.log.events import Event, event_body, event_prefix, type_word
from sessiond.service.pubsub.subscription import Variant

Framed = dict[tuple[Callable[[bytes], bytes], bool, int], bytes]
"""Frames of one publication by framing, bodies and seq: each is made once."""


class Frames:
    """Encoder of one session's events. `encoded` counts the frames that were made."""

    def __init__(self, session_id: str, epoch: str, rules: Rules) -> None:
        self.encoded = 0
        self._prefix = event_prefix(session_id, epoch)
        self._rules = rules

    def of(self, variant: Variant, events: Sequence[Event], framed: Framed) -> bytes:
        """Return the frames of the wanted events. `framed` holds the frames of other variants."""
        encode, bodies = variant.encode, variant.bodies
        frames: list[bytes] = []
        for event in events:
            if not _wanted(variant, event):
                continue
            key = (encode, bodies, event.seq)
            frame = framed.get(key)
            if frame is None:
                body = event_body(self._prefix, event, self._rules, bodies=bodies)
                frame = framed[key] = encode(body)
                self.encoded += 1
            frames.append(frame)
        return frames[0] if len(frames) == 1 else b"".join(frames)


def _wanted(variant: Variant, event: Event) -> bool:
    row = event.row
    if variant.types is not None and type_word(row.kind, event.wire) not in variant.types:
        return False
    if variant.heads is None:
        return True
    # Records about the session move no head, so the filter of heads does not apply to them.
    return row.head in variant.heads or row.kind in {Kind.LABEL, Kind.INFO}
