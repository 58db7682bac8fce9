"""pi's dialect: what pi itself says, headers, and files of earlier versions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sessiond.dialects import sniff
from sessiond.dialects.base import BadHeader, BadLine, current_lines
from sessiond.dialects.pi.dialect import PI
from sessiond.model.entries import (
    Header,
)
from sessiond.testing.dialects import check_dialect, lines_of
from tests.kit.lines import SAMPLES, folded, leaf_of, pi_vectors, sample, spelled
from tests.unit.pi_lines import LAST, context_at

HEADER = b'{"type":"session","version":3,"id":"abcdefgh","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/x"}'


# -- what pi itself says -----------------------------------------------------


def test_every_recorded_context_is_what_pi_made_of_it(shared: Path) -> None:
    contexts = pi_vectors(shared, "context")
    assert len(contexts) == 30
    for vector in contexts:
        lines = spelled(*vector["input"]["entries"])
        found = context_at(lines, vector["input"].get("leafId", LAST))
        del found["sources"]
        assert found == vector["expected"], vector["name"]
        # Key order is part of what clients see.
        assert json.dumps(found["messages"]) == json.dumps(vector["expected"]["messages"])


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        (
            "before-compaction",
            {
                "compactionSummary": 1,
                "user": 31,
                "assistant": 219,
                "toolResult": 192,
                "bashExecution": 3,
            },
        ),
        ("large-session", {"user": 88, "assistant": 453, "toolResult": 373}),
    ],
)
def test_a_real_session_gives_the_context_that_pi_gave(
    shared: Path, name: str, roles: dict[str, int]
) -> None:
    lines = lines_of(PI, (shared / "fixtures" / f"{name}.jsonl").read_bytes())
    found = context_at(lines[1:])
    assert Counter(message["role"] for message in found["messages"]) == roles
    assert folded(PI, lines[1:]).problems == []


@pytest.mark.parametrize("path", sorted((SAMPLES / "pi").glob("*.jsonl")), ids=lambda p: p.name)
def test_a_real_file_shows_every_promise_kept(path: Path) -> None:
    data = path.read_bytes()
    if "v1" in path.name:
        data = b"".join(line + b"\n" for line in lines_of(PI, data))
    check_dialect(PI, data)


def test_the_sample_of_every_type_reads_as_its_writer_meant() -> None:
    lines = sample(PI, "pi")[1:]
    found = context_at(lines)
    names = ["03", "04", "05", "06", "10", "11", "12"]
    assert found["sources"] == [f"100000{name}" for name in names]
    assert found["messages"][4]["role"] == "branchSummary"
    assert found["thinkingLevel"] == "high"
    abandoned = context_at(lines, "1000000f")
    assert [name[-2:] for name in abandoned["sources"]] == ["0b", "09", "0a", "0d", "0e", "0f"]
    session = folded(PI, lines)
    assert leaf_of(session) == "10000014"
    assert session.labels == {}
    assert session.facts == {"title": "Flaky cart test"}


# -- header ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (HEADER.replace(b'"version":3', b'"version":4'), "newer"),
        (HEADER.replace(b'"session"', b'"message"'), "no session header"),
        (HEADER.replace(b'"abcdefgh"', b'""'), "no id"),
        (HEADER.replace(b'"2026-01-01T00:00:00.000Z"', b"[]"), "no text"),
        (b'{"v":4,"kind":"header","id":"abcdefgh"}', "no session header"),
    ],
)
def test_a_header_that_pi_never_writes_is_not_taken_for_one(line: bytes, why: str) -> None:
    with pytest.raises(BadHeader, match=why):
        PI.decode_header(line)
    assert sniff(line) is None


def test_a_header_with_a_number_as_time_is_no_header_of_pi() -> None:
    line = HEADER.replace(b'"2026-01-01T00:00:00.000Z"', b"1784000000.25")
    with pytest.raises(BadHeader, match="no text"):
        PI.decode_header(line)
    found = sniff(line)
    assert found is not None
    assert found.name == "operator"


def test_a_header_of_version_3_without_a_folder_is_sharurs() -> None:
    line = HEADER.replace(b',"cwd":"/x"', b"")
    with pytest.raises(BadHeader, match="no cwd"):
        PI.decode_header(line)
    found = sniff(line)
    assert found is not None
    assert found.name == "sharur"


def test_a_header_of_any_version_is_read() -> None:
    assert PI.decode_header(HEADER) == Header(
        version=3, id="abcdefgh", timestamp="2026-01-01T00:00:00.000Z", cwd="/x"
    )
    assert PI.decode_header(b'{"type":"session","id":"abcdefgh"}') == Header(
        version=1, id="abcdefgh"
    )
    forked = HEADER[:-1] + b',"parentSession":"/a.jsonl"}'
    assert PI.decode_header(forked).parent_session == "/a.jsonl"
    branched = HEADER[:-1] + b',"branchedFrom":"/b.jsonl"}'
    assert PI.decode_header(branched).parent_session == "/b.jsonl"


def test_a_header_is_written_as_pi_writes_it() -> None:
    header = Header(id="abcdefgh", timestamp=1767225600.0, cwd="/x", title="not in pi's header")
    assert PI.encode_header(header) == HEADER


# -- migration ---------------------------------------------------------------

V1 = b'{"type":"session","id":"abcdefgh","cwd":"/x","provider":"p"}'


V1_ENTRIES = [
    b'{"type":"message","zz":%d,"message":{"role":"user","n":1.50}}' % n for n in range(3)
]


def test_a_list_becomes_a_chain_with_the_same_ids_every_time() -> None:
    lines = [V1, *V1_ENTRIES]
    migrated = list(current_lines(PI, lines))
    assert migrated == list(current_lines(PI, lines))
    assert migrated[0] == (
        b'{"type":"session","version":3,"id":"abcdefgh","cwd":"/x","provider":"p"}'
    )
    entries = [json.loads(line) for line in migrated[1:]]
    assert [entry["parentId"] for entry in entries] == [None, entries[0]["id"], entries[1]["id"]]
    assert len({entry["id"] for entry in entries}) == 3
    assert all(len(entry["id"]) == 8 for entry in entries)
    assert [list(entry) for entry in entries] == [["type", "id", "parentId", "zz", "message"]] * 3
    assert all(b'"message":{"role":"user","n":1.50}' in line for line in migrated[1:])
    other = list(current_lines(PI, [V1.replace(b"abcdefgh", b"abcdefgi"), *V1_ENTRIES[:1]]))
    assert json.loads(other[1])["id"] != entries[0]["id"]


def test_ids_do_not_collide_in_a_long_list() -> None:
    # Among 120,000 ids of eight digits one or two collide: the birthday bound is 65,536.
    migrated = list(current_lines(PI, [V1, *([b'{"type":"x"}'] * 120_000)]))
    assert len({json.loads(line)["id"] for line in migrated[1:]}) == 120_000


@pytest.mark.parametrize(
    ("index", "kept"),
    [
        (0, None),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, None),
        (99, None),
        (-1, None),
        ("1", None),
        (None, None),
    ],
)
def test_an_index_of_the_first_kept_entry_becomes_its_id(index: object, kept: int | None) -> None:
    compaction = json.dumps({"type": "compaction", "firstKeptEntryIndex": index, "summary": "s"})
    migrated = list(current_lines(PI, [V1, *V1_ENTRIES[:2], compaction.encode(), *V1_ENTRIES[:1]]))
    entries = [json.loads(line) for line in migrated]
    assert "firstKeptEntryIndex" not in entries[3]
    expected = None if kept is None else entries[kept]["id"]
    assert entries[3].get("firstKeptEntryId") == expected
    if expected is not None:
        assert list(entries[3])[3:] == ["firstKeptEntryId", "summary"]


def test_the_linear_sample_gives_what_pi_gives() -> None:
    lines = sample(PI, "pi-v1-linear")
    found = context_at(lines[1:])
    assert [m.get("summary", m.get("content")) for m in found["messages"]] == [
        "one+two",
        "three",
        "four",
    ]
    assert found["messages"][1]["role"] == "custom"
    assert found["model"] == {"provider": "anthropic", "modelId": "claude-opus-4-5"}
    assert found["thinkingLevel"] == "off"


def test_version_two_only_renames_a_role() -> None:
    header = HEADER.replace(b'"version":3', b'"version":2')
    hook = b'{"type":"message","id":"a","message":{"n":1.50,"role":"hookMessage","d":{"role":"hookMessage"}}}'
    quoted = b'{"type":"message","id":"b", "message":{"role":"user","content":"hookMessage"}}'
    broken = b'{"type":"message","id":"c","message":["hookMessage"]}'
    migrated = list(current_lines(PI, [header, hook, quoted, broken]))
    assert migrated == [
        HEADER,
        hook.replace(b'"role":"hookMessage","d"', b'"role":"custom","d"'),
        quoted,
        broken,
    ]


def test_lines_that_do_not_parse_stay_and_do_not_count() -> None:
    compaction = b'{"type":"compaction","firstKeptEntryIndex":1}'
    lines = [V1, b'{"type":"mess', *V1_ENTRIES[:1], b"", compaction]
    migrated = list(current_lines(PI, lines))
    assert migrated[1] == b'{"type":"mess'
    assert migrated[3] == b""
    assert json.loads(migrated[4])["firstKeptEntryId"] == json.loads(migrated[2])["id"]


def test_a_header_inside_an_old_file_is_no_entry() -> None:
    migrated = list(current_lines(PI, [V1, *V1_ENTRIES[:1], V1, *V1_ENTRIES[:1]]))
    assert migrated[2] == V1
    assert json.loads(migrated[3])["parentId"] == json.loads(migrated[1])["id"]
    with pytest.raises(BadLine, match="second header"):
        PI.row(V1)


@pytest.mark.parametrize("lines", [[], [b""], [b"{}"], [b'{"type":"message"}']])
def test_what_has_no_header_is_not_migrated(lines: list[bytes]) -> None:
    with pytest.raises(BadHeader):
        list(current_lines(PI, lines))


def test_a_file_of_today_is_passed_as_it_is() -> None:
    lines = [HEADER, b'{ "type":"message" }', b"junk"]
    assert list(current_lines(PI, lines)) == lines
