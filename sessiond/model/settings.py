"""The compaction settings of a session.

{"enabled":true,"reserve_tokens":16384,"keep_recent_tokens":20000,
 "context_window":200000,"preset":"pi"}
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.model.integers import IntegerDecoder

Tokens = Annotated[int, Meta(ge=0, le=1_000_000_000)]
PresetName = Literal["pi", "operator", "piglet", "sharur"]
TokenizerName = Annotated[str, Meta(min_length=1, max_length=128)]


class CompactionSettings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Compaction settings. The preset, then the configuration, decides about missing ones."""

    enabled: bool | None = None
    reserve_tokens: Tokens | None = None
    keep_recent_tokens: Tokens | None = None
    context_window: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    preset: PresetName | None = None
    tokenizer: TokenizerName | None = None
    auto: bool | None = None


_members: Final = typed.decoder(dict[str, Raw])
_decoders: Final = {
    field.name: IntegerDecoder[Any](field.type)
    for field in msgspec.structs.fields(CompactionSettings)
}


def settings_in(stored: Raw) -> CompactionSettings:
    """Return the settings in a file; invalid and unknown members are ignored."""
    found: dict[str, Any] = {}
    try:
        members = _members.decode(stored)
    except msgspec.DecodeError:
        return CompactionSettings()
    for name, decoder in _decoders.items():
        try:
            found[name] = decoder.decode(members[name])
        except (KeyError, msgspec.DecodeError):
            continue
    return CompactionSettings(**found)


def settings_bytes(settings: CompactionSettings | UnsetType | None) -> Raw | UnsetType:
    """Return the settings as they are stored; null clears them."""
    return UNSET if isinstance(settings, UnsetType) else Raw(msgspec.json.encode(settings))
