"""First lines of a copy: its name, the settings it goes on with, and its origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import asdict

from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.entries import (
    INFO_SETTINGS,
    Custom,
    Entry,
    Header,
    ModelChange,
    SessionInfoEntry,
)
from sessiond.model.row import InfoEffect, Kind, ModelName
from sessiond.model.working.entries import STATE, StateSet
from sessiond.service.copying.source import CopyDeps, Source, Step
from sessiond.service.log.session_info import Lineage
from sessiond.session.settings import SETTINGS

_encode: Final = msgspec.json.Encoder().encode
# Facts that have no field in a native header.
_FACTS: Final = ("provider", "thinking_level")


class Birth(Struct, frozen=True):
    """Identity of a copy: its id, title and folder, and whether it links to its source."""

    session_id: str
    deps: CopyDeps
    cwd: str | None = None
    title: str | None = None
    linked: bool = True
    notes: list[str] = msgspec.field(default_factory=list[str])
    """Texts that name the parts of the source that the copy lacks; filled while its lines are made."""


def lineage_of_copy(
    source: Source, birth: Birth, *, rebased_from: str | None = None, **more: Any
) -> Lineage:
    """Return the origin of the copy; `more` is included only with a link."""
    if not birth.linked:
        return Lineage(detached=True, rebased_from=rebased_from)
    return Lineage(parent_id=source.info.id, rebased_from=rebased_from, **more)


def header_of(
    source: Source, birth: Birth, lineage: Lineage, *, state: bool, whole: bool
) -> Header:
    """Return the header. A whole copy keeps the source's facts, as its lines change them again."""
    info = source.info
    base = Header(
        agent=info.agent,
        model=source.stated.values["model"],
        tags=(info.tags or None) if state else None,
        system_prompt=_text(info.system_prompt),
        compaction=_raw(info.compaction),
        dry_run=info.dry_run,
        metadata=_raw(info.metadata),
    )
    if whole:
        base = msgspec.structs.replace(
            source.opened.header, version=UNSET, persist=None, scope=UNSET
        )
    own_title = {} if whole else {"title": birth.title}
    return msgspec.structs.replace(
        base,
        id=birth.session_id,
        timestamp=birth.deps.now,
        cwd=info.cwd if birth.cwd is None else birth.cwd,
        lineage=Raw(_encode(lineage)),
        parent_session=info.path if birth.linked else None,
        **own_title,
    )


def facts_of(source: Source, *, state: bool) -> list[Entry]:
    """Return the session's facts that its header cannot hold; only native files keep them."""
    if source.opened.dialect is not NATIVE:
        return []
    stated = source.stated.values
    facts = {name: value for name in _FACTS if (value := stated.get(name)) is not None}
    if state and (plan := _text(source.info.plan)) is not None:
        facts["plan"] = plan
    return [SessionInfoEntry(**facts)] if facts else []


def settings_of(source: Source, leaf: int, steps: Sequence[Step]) -> list[Entry]:
    """Return the entries that keep the settings in force at `leaf` in force behind these steps."""
    if source.opened.dialect is not NATIVE:
        return _restated(source, steps)
    wanted = asdict(source.stated.at(source.session, leaf))
    said = {name: source.stated.values.get(name) for name in SETTINGS}
    for step in steps:
        match source.session.setting(step) if isinstance(step, int) else step:
            case ModelName(model_id, provider):
                said |= {"model": model_id, "provider": provider}
            case ModelChange(model_id=model_id, provider=provider):
                named = provider if isinstance(provider, str) else None
                said |= {"model": model_id, "provider": named}
            case str() as level:
                said["thinking_level"] = level
            case _:
                pass
    changed = {name: wanted[name] for name in SETTINGS if wanted[name] != said[name]}
    return [SessionInfoEntry(**changed)] if changed else []


def _restated(source: Source, steps: Sequence[Step]) -> list[Entry]:
    """Return the entry with the session's settings, where entries of the copy's path state older ones.

    In some dialects an entry that states facts of the session stands in its tree.
    """
    session, info = source.session, source.info
    stating = [step for step in steps if isinstance(step, int) and session.kinds[step] == Kind.INFO]
    if not stating:
        return []
    last = stating[-1]
    stale = [name for name in INFO_SETTINGS if session.fact_seqs.get(name, last) != last]
    if not stale:
        return []
    (line,) = source.opened.journal.read(last, last)
    effect = source.opened.dialect.row(line).effect
    title = effect.facts.get("title") if isinstance(effect, InfoEffect) else None
    settings: dict[str, Any] = {name: getattr(info, name) for name in stale}
    if settings.get("compaction", UNSET) is None:
        settings["compaction"] = Raw(b"null")
    return [SessionInfoEntry(name=title, **settings)]


def inherited_state(source: Source) -> list[Entry]:
    """Return the entry that states a fork's working state: the source's, with counts of its own.

    The decisions and artifacts that come along are enough if the source counted nothing else.
    """
    state = source.state
    has_counts = state.tokens_used or state.turn_count or state.task_count or state.pruned
    if not (has_counts or state.set_at):
        return []
    given = StateSet(
        decisions=state.decisions,
        artifacts=state.artifacts,
        tokens_used=state.tokens_used,
        tokens_since_prune=state.tokens_since_prune,
    )
    return [Custom(custom_type=STATE, data=Raw(_encode(given)))]


def title_of(source: Source, birth: Birth, *, whole: bool) -> list[Entry]:
    """Return the title as an entry, where the header cannot set the copy's title.

    That is the case in a whole copy, and in a dialect whose headers have no titles.
    """
    rules = source.session.rules
    if birth.title is None or (rules.titled_header and not whole):
        return []
    titled = SessionInfoEntry(name=birth.title)
    if "model" in rules.whole_info:
        titled.model = source.stated.values["model"]
    return [titled]


def _text(value: str | UnsetType | None) -> str | None:
    return None if isinstance(value, UnsetType) else value


def _raw(value: Raw | UnsetType | None) -> Raw | UnsetType:
    return UNSET if value is None else value
