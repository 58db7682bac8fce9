"""The names of the files that sessiond makes. Only this module builds and recognises them.

Law: sessiond moves, replaces or removes a file only if the whole name has one of these
forms. A file whose name only begins like one of them belongs to the user.

    <stamp>_<session id>.jsonl            a session
    <session id>.jsonl                    a draft
    <session id>.place                    where the file of a draft belongs, if not in the profile
    <file>.torn-<stamp>                   what an opening cut from the end of a file
    <file>.torn-<stamp>-2                 a second such copy with that stamp
    .sessiond-<32 hex digits>.new         a file that is not finished; of a key file, the first 16 digits
                                          stand for the name of the key file
    <namespace>.json                      a namespace of the state store
    <namespace>.json.aside-<stamp>        a file that had the name of a namespace and was none
    <namespace>.json.aside-<stamp>-2      a second such file with that stamp

Where <file> and an ending have more bytes than a name may have, <file> is shortened: its first bytes,
"~", and 16 digits of a digest of <file>.

In the trash the name of a session or a draft may be followed by

    .torn-<stamp>  .torn-<stamp>-2        as above
    .before-repair-<stamp>                the file as it was before session/repair
    .origin                               where the file lay, if its name does not say that
    .from-<name>                          the file lay outside the profile under that name; all of it
                                          is shortened as above, so that each ending has room
    .2                                    last of all, if the name without this number was taken
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from sessiond.model.digests import sha256_hex
from sessiond.model.ids import is_namespace, is_session_id
from sessiond.system.base import NAME_BYTES_MAX

SUFFIX: Final = ".jsonl"
# Leaves room for the longest ending, .before-repair-<stamp>, and for a number.
_TRASHED_BYTES_MAX: Final = NAME_BYTES_MAX - 55
_PLACE: Final = ".place"

_STAMP: Final = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{6}"
# A number is added only to a name that is taken, so the first number is 2.
_NUMBER: Final = r"(?:[2-9]|[1-9]\d+)"
_TORN: Final = rf"\.torn-{_STAMP}(?:-{_NUMBER})?"
_BEGUN: Final = re.compile(_STAMP, re.ASCII)
_TORN_END: Final = rf"(?a){_TORN}\Z"
_COPY: Final = rf"(?:{_TORN}|\.before-repair-{_STAMP}|\.origin)"
_ENDING: Final = rf"(?a)(?:{_COPY})?(?:\.{_NUMBER})?"
_COPY_ENDING: Final = rf"(?as)(?:\.from-.+)?{_COPY}(?:\.{_NUMBER})?"
_ORIGIN: Final = rf"(?as).*\.origin(?:\.{_NUMBER})?"
_NUMBERED: Final = rf"(?a)\.{_NUMBER}"
_DOCUMENT: Final = ".json"
_ASIDE: Final = re.compile(rf"(.+)\.aside-{_STAMP}(?:-{_NUMBER})?", re.ASCII)
_DIGITS: Final = 16
_UNFINISHED: Final = re.compile(r"\.sessiond-[0-9a-f]{32}\.new", re.ASCII)


def id_in_name(name: str) -> str | None:
    """Return the session id in the name of a session's file; None for any other name."""
    stamp, _, rest = name.partition("_")
    return draft_id_in(rest) if _BEGUN.fullmatch(stamp) else None


def draft_id_in(name: str) -> str | None:
    """Return the session id in the name of a draft's file; None for any other name."""
    session_id = name.removesuffix(SUFFIX)
    return session_id if session_id != name and is_session_id(session_id) else None


def note_name(draft_id: str) -> str:
    """Return the name of the note that says where the file of a draft belongs."""
    return f"{draft_id}{_PLACE}"


def note_id_in(name: str) -> str | None:
    """Return the id of the draft that a note is about; None for any other name."""
    draft_id = name.removesuffix(_PLACE)
    return draft_id if draft_id != name and is_session_id(draft_id) else None


def document_name(namespace: str) -> str:
    """Return the name of the file of a namespace."""
    assert is_namespace(namespace), "namespaces are checked at the edge"
    return f"{namespace}{_DOCUMENT}"


def namespace_in(name: str) -> str | None:
    """Return the namespace in the name of its file; None for any other name."""
    namespace = name.removesuffix(_DOCUMENT)
    return namespace if namespace != name and is_namespace(namespace) else None


def aside_name(path: Path, stamp: str, number: int) -> Path:
    """Return the `number`th name for a file that had the name of a namespace and was none."""
    ending = f"-{number}" if number > 1 else ""
    return path.with_name(f"{path.name}.aside-{stamp}{ending}")


def namespace_aside(name: str) -> str | None:
    """Return the namespace whose name a file had that was put aside; None for any other name."""
    found = _ASIDE.fullmatch(name)
    return None if found is None else namespace_in(found[1])


def torn_end_name(path: Path, stamp: str, number: int) -> Path:
    """Return the `number`th name for a copy of the torn end of a file."""
    ending = f"-{number}" if number > 1 else ""
    return path.with_name(with_ending(path.name, f".torn-{stamp}{ending}"))


def torn_ending(name: str, of: str) -> str | None:
    """Return the ending of the name of a torn end of the file `of`; None for any other name."""
    found = re.search(_TORN_END, name)
    return found[0] if found is not None and name == with_ending(of, found[0]) else None


def with_ending(name: str, ending: str) -> str:
    """Return a name with an ending; the name is shortened where both together are too long."""
    return _fitting(name, NAME_BYTES_MAX - len(os.fsencode(ending))) + ending


def _fitting(name: str, limit: int) -> str:
    """Return a name of at most `limit` bytes: the name, or its beginning and a digest of the name."""
    data = os.fsencode(name)
    if len(data) <= limit:
        return name
    # Half a character at the end is left out: some file systems refuse it.
    beginning = data[: limit - len("~") - _DIGITS].decode(errors="ignore")
    return f"{beginning}~{sha256_hex(data)[:_DIGITS]}"


def unfinished_name(digits: str) -> str:
    """Return the temporary name of a new file, from 32 random hex digits."""
    name = f".sessiond-{digits}.new"
    assert is_unfinished(name), "32 hex digits"
    return name


def is_unfinished(name: str) -> bool:
    """Return whether a name is the temporary name of an unfinished file."""
    return _UNFINISHED.fullmatch(name) is not None


def unfinished_key_name(of: str, digits: str) -> str:
    """Return the temporary name of a new key file for the name `of`, from 32 random hex digits."""
    return unfinished_name(_key_digits(of) + digits[_DIGITS:])


def is_unfinished_key(name: str, of: str) -> bool:
    """Return whether a name is the temporary name of an unfinished key file for the name `of`."""
    return is_unfinished(name) and name.startswith(f".sessiond-{_key_digits(of)}")


def _key_digits(of: str) -> str:
    return sha256_hex(b"sessiond key file\0" + os.fsencode(of))[:_DIGITS]


def from_elsewhere(own: str, name: str) -> str:
    """Return the name in the trash of a file that lay outside the profile under the name `name`.

    The name begins with `own`, the name of a session's file. Any ending of this module may follow.
    """
    return _fitting(f"{own}.from-{name}", _TRASHED_BYTES_MAX)


def trashed_id(name: str) -> str | None:
    """Return the session id in the name of a file in the trash; None for any other name."""
    own, rest = _split(name)
    if rest.startswith(".from-"):
        return id_in_name(own) if rest != ".from-" else None
    return (id_in_name(own) or draft_id_in(own)) if re.fullmatch(_ENDING, rest) else None


def is_copy_in_trash(name: str) -> bool:
    """Return whether a name in the trash may be that of a torn end, old copy or origin note."""
    return re.fullmatch(_COPY_ENDING, _split(name)[1]) is not None


def is_origin(name: str) -> bool:
    """Return whether a name in the trash is that of a note with the origin of a file."""
    return is_copy_in_trash(name) and re.fullmatch(_ORIGIN, name) is not None


def is_session_in_trash(name: str) -> bool:
    """Return whether a name in the trash is that of a session's file, not of a copy or note."""
    return trashed_id(name) is not None and not is_copy_in_trash(name)


def without_number(name: str) -> str:
    """Return a name in the trash without the number that was added because the name was taken."""
    stem, dot, number = name.rpartition(".")
    return stem if dot and re.fullmatch(_NUMBERED, dot + number) else name


def _split(name: str) -> tuple[str, str]:
    # Ids have no dot: the first suffix ends the name of the session's file.
    at = name.find(SUFFIX) + len(SUFFIX)
    return name[:at], name[at:]
