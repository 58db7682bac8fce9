"""The state entries: `custom` entries that say what an agent must remember between turns.

Law: a state entry is an ordinary `custom` entry of its file. Its `custom_type` is reserved, and its
`data` has the shape below; further members of `data` are kept and mean nothing. Entries of any
branch count, in the order of the file.

    {"type":"custom","custom_type":"sessiond.decision","data":{"decision":"Use SQLite"}}
    {"type":"custom","custom_type":"sessiond.artifact","data":{"name":"branch","path":"feat/x"}}
    {"type":"custom","custom_type":"sessiond.task","data":{"turns":1,"tasks":1,"tokens":500}}
    {"type":"custom","custom_type":"sessiond.prune","data":{"max_decisions":10,"max_tokens":150000}}
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from sessiond.limits import ARTIFACT_NAME_CHARS_MAX, PATH_BYTES_MAX, STATE_TEXT_CHARS_MAX
from sessiond.model.integers import IntegerDecoder
from sessiond.model.times import TimeText, utc_time

DECISION: Final = "sessiond.decision"
ARTIFACT: Final = "sessiond.artifact"
TASK: Final = "sessiond.task"
PRUNE: Final = "sessiond.prune"
STATE: Final = "sessiond.state"

COUNT_MAX: Final = 2**53 - 1
"""The greatest integer that every client can hold; a sum ends there."""
_MISSING: Final = "Object missing required field `"

StateText = Annotated[str, Meta(min_length=1, max_length=STATE_TEXT_CHARS_MAX)]
Rationale = Annotated[str, Meta(max_length=STATE_TEXT_CHARS_MAX)]
TaskText = Rationale
ArtifactName = Annotated[str, Meta(min_length=1, max_length=ARTIFACT_NAME_CHARS_MAX)]
ArtifactPath = Annotated[str, Meta(min_length=1, max_length=PATH_BYTES_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]


class Decision(Struct, frozen=True, omit_defaults=True):
    """A key decision. Without a time of its own a decision has the time of its entry."""

    decision: StateText
    rationale: Rationale | None = None
    timestamp: TimeText | None = None


class ArtifactSet(Struct, frozen=True):
    """A pointer to an artifact; a path of None removes the name."""

    name: ArtifactName
    path: ArtifactPath | None = None


class TaskDone(Struct, frozen=True, omit_defaults=True):
    """A task: its turns and tokens, which the state adds up."""

    task: TaskText | None = None
    turns: Count = 0
    tasks: Count = 0
    tokens: Count = 0


class Prune(Struct, frozen=True):
    """A move of the view: only the newest decisions stay in it.

    `clear_artifacts` is stated, because a copy may lack the tasks whose tokens decided it.
    """

    max_decisions: Count
    max_tokens: Count
    clear_artifacts: bool = False


class StateSet(Struct, frozen=True, omit_defaults=True):
    """The whole state, where it does not follow from other entries: in a fork, and in an import."""

    decisions: list[Decision] = []
    artifacts: dict[ArtifactName, ArtifactPath] = {}
    tokens_used: Count = 0
    tokens_since_prune: Count = 0
    total_tokens: Count = 0
    turn_count: Count = 0
    task_count: Count = 0
    decision_count: Count = 0
    pruned: bool = False
    last_pruned_at: TimeText | None = None


class BadState(Struct, frozen=True):
    """A state entry that changes nothing: its data has a wrong shape. `path` names the place."""

    detail: str
    path: str


StateEffect = Decision | ArtifactSet | TaskDone | Prune | StateSet | BadState

_decoders: Final[dict[str, IntegerDecoder[Any]]] = {
    DECISION: IntegerDecoder(Decision),
    ARTIFACT: IntegerDecoder(ArtifactSet),
    TASK: IntegerDecoder(TaskDone),
    PRUNE: IntegerDecoder(Prune),
    STATE: IntegerDecoder(StateSet),
}
STATE_TYPES: Final = frozenset(_decoders)
"""The reserved custom types."""
_TYPE_OF: Final[dict[type[Any], str]] = {
    Decision: DECISION,
    ArtifactSet: ARTIFACT,
    TaskDone: TASK,
    Prune: PRUNE,
    StateSet: STATE,
}


def custom_type_of(effect: Decision | ArtifactSet | TaskDone | Prune | StateSet) -> str:
    """Return the reserved type of an entry with this data."""
    return _TYPE_OF[type(effect)]


def state_effect(custom_type: str, data: Raw | None) -> StateEffect | None:
    """Return the effect of a `custom` entry on the state; None for an entry of another type."""
    decoder = _decoders.get(custom_type)
    if decoder is None:
        return None
    try:
        effect: StateEffect = decoder.decode(b"null" if data is None else data)
    except (msgspec.DecodeError, RecursionError) as error:
        return bad_data(custom_type, error)
    return _with_good_times(effect)


def _with_good_times(effect: StateEffect) -> StateEffect:
    """Return the effect, or what is wrong with a time in it."""
    times: list[tuple[str, str | None]] = []
    match effect:
        case Decision(timestamp=time):
            times = [("data.timestamp", time)]
        case StateSet(decisions=decisions, last_pruned_at=pruned_at):
            times = [
                (f"data.decisions[{at}].timestamp", one.timestamp)
                for at, one in enumerate(decisions)
            ]
            times.append(("data.last_pruned_at", pruned_at))
        case _:
            pass
    for path, time in times:
        if time is not None and utc_time(time) is None:
            return BadState("its time is no RFC 3339 time", path)
    return effect


def bad_data(custom_type: str, error: Exception) -> BadState:
    """Return what is wrong with data, without a word of it."""
    text = str(error) if isinstance(error, msgspec.ValidationError) else "it is no JSON object"
    what, _, place = text.partition(" - at `")
    # msgspec points at a key of an object with "key` in `$.x", and names a missing member in the text.
    path = "data" + place.removeprefix("key` in `").removeprefix("$").removesuffix("`")
    if what.startswith(_MISSING):
        path += "." + what.removeprefix(_MISSING).removesuffix("`")
    return BadState(f"the data of {custom_type} has a wrong shape: {what}", path)
