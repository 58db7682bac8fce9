"""The table and the result file leave nothing out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.bench import run as command
from tests.bench.harness.bench import Bench, Row
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.figures import at_least, at_most
from tests.bench.harness.report import comparison, report
from tests.bench.harness.results import (
    Contender,
    Figure,
    Machine,
    RowResult,
    Run,
    load_run,
    save_run,
)
from tests.bench.table import ROWS

PEER = Contender("echo", "3.11")
MACHINE = Machine(
    cpu="cpu", cores=2, server_core=1, client_core=0, kernel="k", python="p", filesystem="ext4"
)


def one_figure(ours: list[float], peer: list[float]) -> Figure:
    return Figure(
        case="1 client, mix", metric="rate", ours=ours, peer=peer, peer_is=PEER, goal=at_least(0.9)
    )


def one_run(*rows: RowResult) -> Run:
    return Run(
        commit="0123456789abcdef",
        modified=False,
        started_at="2026-01-15T10:30:00+00:00",
        quick=False,
        rounds=3,
        machine=MACHINE,
        versions={"msgspec": "0.22.0"},
        rows=list(rows),
    )


def line_of(text: str, word: str) -> str:
    return next(line for line in text.split("\n") if word in line)


def test_a_figure_shows_both_sides_the_ratio_its_range_and_the_verdict() -> None:
    row = RowResult(number=1, title="append", figures=[one_figure([80, 95, 110], [100, 100, 100])])
    text = report(one_run(row))
    cells = line_of(text, "1 client, mix").split()
    assert cells[3:] == ["/s", "95", "100.0", "0.95", "0.8..1.1", "≥", "0.9", "pass"]
    assert "peer: echo 3.11" in text
    assert line_of(text, "row  1") == "row  1: 1 pass"


def test_a_goal_that_was_missed_is_named_in_the_summary() -> None:
    row = RowResult(number=4, title="durable", figures=[one_figure([50, 50], [100, 100])])
    line = line_of(report(one_run(row)), "row  4")
    assert "1 short" in line
    assert "1 client, mix rate 0.5" in line


def test_a_missing_peer_is_named_with_its_reason_and_ours_is_still_shown() -> None:
    row = RowResult(
        number=2, title="pi", figures=[one_figure([50, 50], [])], missing=["pi: no network"]
    )
    text = report(one_run(row))
    assert "missing: pi: no network" in text
    assert "missing" in line_of(text, "1 client, mix")
    assert "no peer" in line_of(text, "1 client, mix")
    assert "pi: no network" in line_of(text, "row  2")


def test_a_count_without_a_peer_is_held_against_its_goal() -> None:
    idle = Figure(
        case="idle", metric="wakeups", ours=[2.0, 4.0, 5.0], goal=at_most(3), absolute=True
    )
    text = report(one_run(RowResult(number=16, title="idle", figures=[idle])))
    assert line_of(text, "wake-ups/s").split()[2:] == ["4", "-", "-", "-", "≤", "3", "short"]
    assert "short: idle wakeups 4" in line_of(text, "row 16:")


def test_a_recorded_factor_scales_the_peer() -> None:
    figure = Figure(
        case="open", metric="ms", ours=[10], peer=[100], peer_factor=0.5, goal=at_most(1 / 6)
    )
    assert figure.ratio is not None
    assert figure.ratio.median == 0.2
    assert figure.verdict == "short"
    assert "pi x 0.5" in report(one_run(RowResult(number=8, title="open", figures=[figure])))


def test_a_result_file_gives_the_same_run_back(tmp_path: Path) -> None:
    run = one_run(RowResult(number=1, title="append", figures=[one_figure([1, 2], [3, 4])]))
    path = tmp_path / "results" / "run.json"
    save_run(run, path)
    assert load_run(path) == run
    kept = msgspec.json.decode(path.read_bytes())["rows"][0]["figures"][0]
    assert (kept["ours"], kept["peer"]) == ([1.0, 2.0], [3.0, 4.0])


@pytest.mark.parametrize(
    ("ours", "word"),
    [([30, 30], "WORSE"), ([99, 101], "same (ranges overlap)"), ([200, 210], "better")],
)
def test_a_comparison_calls_only_what_lies_apart_a_change(ours: list[float], word: str) -> None:
    before = one_run(RowResult(number=1, title="a", figures=[one_figure([95, 105], [100, 100])]))
    after = one_run(RowResult(number=1, title="a", figures=[one_figure(ours, [100, 100])]))
    assert word in line_of(comparison(before, after), "1 client, mix")


def test_a_comparison_names_what_only_one_run_has() -> None:
    before = one_run(RowResult(number=1, title="a", figures=[one_figure([1], [1])]))
    after = one_run()
    assert "only in A: row 1, 1 client, mix" in comparison(before, after)
    assert "only in B: row 1, 1 client, mix" in comparison(after, before)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BenchError("3 entries were lost"), "3 entries were lost"),
        (Missing("sessiond", "it does not start"), "a contender is missing"),
        (OSError("broken pipe"), "broken pipe"),
    ],
)
def test_a_row_that_fails_says_so_and_does_not_stop_the_others(
    tmp_path: Path, error: Exception, expected: str
) -> None:
    def fails(_: Bench, __: RowResult) -> None:
        raise error

    def succeeds(_: Bench, result: RowResult) -> None:
        result.figures.append(one_figure([1], [1]))

    surroundings = Bench(rounds=1, quick=True, folder=tmp_path, cache=tmp_path)
    rows = [Row(1, "bad", fails), Row(2, "good", succeeds)]
    run = command._measured(surroundings, rows)
    assert run.rows[0].failed == expected
    assert run.rows[1].figures
    assert f"FAILED: {expected}" in report(run)
    assert command._exit_code(run, gate=False) == 1


def test_a_missed_goal_fails_only_with_gate() -> None:
    run = one_run(RowResult(number=1, title="a", figures=[one_figure([1], [2])]))
    assert command._exit_code(run, gate=False) == 0
    assert command._exit_code(run, gate=True) == 1


def test_the_table_has_each_row_once_in_order() -> None:
    numbers = [row.number for row in ROWS]
    assert numbers == sorted(set(numbers))


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--rows", "1,99"])
    assert "no row 99" in capsys.readouterr().err
