"""The package: compiled, checked and installed; its pages, keys and the conformance kit."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.interop.emacs.editor import FILES, PACKAGE, SCRIPTS, Editor, batch, quoted
from tests.interop.test_conformance import BELOW_A_CLIENT, CASES, skipped, with_daemon
from tests.interop.test_stubs import SESSION, contents, new_session

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

# What is left out because a number there is spelled in a way that Emacs does not write.
OTHER_NUMBERS: Final = {
    "append-entry-types",
    "big-integers-and-decimals",
    "compaction",
    "import-and-export",
    "payload-after-restart",
    "pipelined-signals-keep-their-order",
    "repair",
    "retry-same-ids",
    "retry-same-key",
    "signals",
    "state-store",
    "subscribe-from-now",
    "update",
}
MODES: Final = {
    "sessiond-list-mode": ["RET", "t", "a", "+", "w", "g"],
    "sessiond-tree-mode": ["RET", "n", "p", "m", "b", "l", "a", "t", "g"],
    "sessiond-tail-mode": ["RET", "n", "p", "a", "t", "g"],
    "sessiond-message-mode": ["C-c C-c", "C-c C-k"],
    "sessiond-entry-mode": ["q"],
}


def test_the_package_compiles_without_a_warning(
    emacs: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    for name in FILES:
        shutil.copy(PACKAGE / name, tmp_path)
    files = [str(tmp_path / name) for name in FILES]
    strict = "(setq byte-compile-error-on-warn t)"
    batch(
        emacs,
        environment,
        "-L",
        str(tmp_path),
        "--eval",
        strict,
        "-f",
        "batch-byte-compile",
        *files,
    )
    assert sorted(path.name for path in tmp_path.glob("*.elc")) == [f"{name}c" for name in FILES]


@pytest.mark.parametrize("name", FILES)
def test_checkdoc_has_nothing_to_say(emacs: str, environment: Mapping[str, str], name: str) -> None:
    look = f"(progn (require 'checkdoc) (checkdoc-file {quoted(str(PACKAGE / name))}))"
    assert batch(emacs, environment, "--eval", look) == ""


def test_an_installed_package_loads_with_its_first_use_and_appends(
    emacs: str,
    environment: Mapping[str, str],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Go the way of a new user: install into an empty folder, then append a region."""
    new_session(environment)
    folder = f"(setq user-emacs-directory {quoted(f'{tmp_path}/')} package-user-dir {quoted(f'{tmp_path}/elpa')})"
    began = time.monotonic()
    install = f"(progn (require 'package) (package-initialize) (package-install-file {quoted(f'{PACKAGE}/')}))"
    batch(emacs, environment, "--eval", folder, "--eval", install)
    use = f"""(progn
      (require 'package) (package-activate-all)
      (princ (list (featurep 'sessiond) (featurep 'sessiond-client) (featurep 'jsonrpc)
        (mapcar (lambda (name) (and (commandp name) (autoloadp (symbol-function name))))
          '(sessiond-list sessiond-tree sessiond-tail sessiond-append sessiond-new))))
      (with-temp-buffer
        (insert "the first one")
        (transient-mark-mode 1) (push-mark (point-min) t t)
        (sessiond-append {quoted(SESSION)}))
      (while (not (string-match-p "stored as entry 1" (or (current-message) "")))
        (accept-process-output nil 0.1)))"""
    words = batch(
        emacs,
        environment,
        *("--eval", folder, "--eval", "(advice-add 'current-message :override (lambda () said))"),
        *("--eval", "(defvar said nil)"),
        *(
            "--eval",
            "(advice-add 'message :before (lambda (&rest a) (setq said (apply #'format a))))",
        ),
        *("--eval", use),
    )
    seconds = time.monotonic() - began
    record_property("seconds from package-install-file to the first shared append", seconds)
    print(f"installed and appended in {seconds:.1f} s")  # noqa: T201
    assert words.startswith("(nil nil nil (t t t t t))")
    assert contents(environment) == ["the first one"]


@pytest.mark.parametrize("mode", MODES)
def test_every_key_of_a_mode_is_told_by_describe_mode(editor: Editor, mode: str) -> None:
    told = editor.eval(
        f"""(with-temp-buffer ({mode}) (describe-mode)
          (with-current-buffer "*Help*" (buffer-string)))"""
    )
    for key in MODES[mode]:
        command = editor.eval(
            f"(with-temp-buffer ({mode}) (let ((c (key-binding (kbd {quoted(key)})))) (and (commandp c) c)))"
        )
        assert command is not None
        assert re.search(rf"^{re.escape(key)}\s+{re.escape(command)}$", told, re.MULTILINE), key


def test_no_key_is_bound_elsewhere(editor: Editor) -> None:
    bound = editor.eval(
        """(let (found) (mapatoms (lambda (symbol)
          (and (string-prefix-p "sessiond" (symbol-name symbol)) (commandp symbol)
            (where-is-internal symbol (list global-map)) (push symbol found)))) found)"""
    )
    assert bound is None


def test_the_page_names_each_command_and_function() -> None:
    page = (PACKAGE / "README.md").read_text("utf-8")
    sources = "".join((PACKAGE / name).read_text("utf-8") for name in FILES)
    public = re.findall(r"^\(cl-defun (sessiond-client-[a-z-]+) ", sources, re.MULTILINE)
    commands = re.findall(r"^;;;###autoload\n\(defun (\S+)", sources, re.MULTILINE)
    assert [name for name in {*public, *commands} if "--" not in name and name not in page] == []


def test_the_example_for_other_packages_works_from_a_file(
    editor: Editor, environment: Mapping[str, str], tmp_path: Path
) -> None:
    """Load the example of the page as a reader would: from a file of its own."""
    page = (PACKAGE / "README.md").read_text("utf-8")
    (part,) = re.findall(r"^## For other packages$.*?^## ", page, re.MULTILINE | re.DOTALL)
    (example,) = re.findall(r"^```elisp\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    file = tmp_path / "example.el"
    file.write_text(example, "utf-8")
    editor.eval(f"(progn (load {quoted(str(file))}) nil)")
    said = editor.text("*Messages*", "\n1 message\n")
    assert "\nentries: 0\n" in said
    assert contents(environment, "my-session") == ["hi"]


@pytest.mark.conformance
def test_the_conformance_kit_runs_the_package(emacs: str, sessiond_program: str) -> None:
    command = f"{emacs} -Q --batch -L {PACKAGE} -l {SCRIPTS / 'conformance.el'}"
    code, outcomes = with_daemon(sessiond_program, "--client", command)
    assert skipped(outcomes) == BELOW_A_CLIENT | OTHER_NUMBERS
    assert (code, sorted(outcomes)) == (0, CASES)
