"""Code on the pages runs and prints what the page says, and commands have the options that pages name.

Blocks of these pages run elsewhere, and `ELSEWHERE` says where. All others run here, in order, page by page.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from docs._site import _api
from docs._site._staging import ROOT, written

from dpbandits import cli

ELSEWHERE = {
    "docs/deploying.md": "tests/test_deploy.py",
    "docs/options.md": "tests/options/test_guide.py",
    "docs/real-data.md": "tests/examples/test_rand_insurance.py",
    "docs/how-to/own-client.md": "tests/service/test_own_client.py",
    "docs/how-to/new-reward-model.md": "tests/protocol/test_reward_models.py",
    "docs/how-to/new-trust-model.md": "tests/privacy/test_trust_models.py",
}
BLOCK = re.compile(
    r"^```(python|sh|toml)\n(.*?)^```(?:\n\nIt prints:\n\n```text\n(.*?)```)?", re.DOTALL | re.MULTILINE
)
PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in written()}
NAMES = _api.public_names()

# What the text around a block provides. A page that is not listed needs nothing.
BEFORE = {
    "docs/how-to/new-mechanism.md": """
import sys
import textwrap
from dataclasses import dataclass
from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate
register = lambda made: made  # the page shows a part of the class that examples/one_bit.py registers
sys.path.insert(0, EXAMPLES)
""",
    "docs/how-to/another-carrier.md": """
from dpbandits.rounds import Rounds
import dpbandits as dp
from dpbandits.privacy import SecureNoise
names = iter([f"device {number}" for number in range(900)])
choose = lambda count: [next(names) for _ in range(count)]
play = lambda plan: plan.rounds
def collect(asked, plan):
    averages = [0.5] * len(plan.support)
    return [(name, dp.respond_with_averages(plan, averages, SecureNoise())) for name in asked]
""",
}
SEEDED = "__import__('dpbandits').SimulatedNoise(__import__('numpy').random.default_rng(1))"
# Pages whose numbers may move a little from version to version.
APPROXIMATE = ("docs/research/compare.md",)
NUMBER = re.compile(r"\d[\d,.]*\d|\d")
FRAGMENTS = {"docs/how-to/new-store.md"}  # indented in a list, and not complete


def _printed(code: str, scope: dict[str, object]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code, scope)
    return shown.getvalue()


def _values(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


def _with_python() -> list[str]:
    here = [name for name, text in PAGES.items() if "```python\n" in text]
    return [name for name in here if name not in ELSEWHERE and name not in FRAGMENTS]


@pytest.mark.parametrize("name", _with_python())
def test_python_on_a_page_runs_and_prints_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    scope: dict[str, object] = {"EXAMPLES": str(ROOT / "examples"), "__name__": __name__}
    exec(BEFORE.get(name, ""), scope)
    with _registries_as_before():
        for kind, code, expected in BLOCK.findall(PAGES[name]):
            if kind == "toml":
                assert tomllib.loads(code)
            elif kind == "python":
                # A block has its own store. Noise is seeded: an audit fails wrongly now and then.
                code = code.replace("study.sqlite", f"{len(code)}.sqlite").replace("SecureNoise()", SEEDED)
                shown = _printed(code, scope)
                if expected and name in APPROXIMATE:
                    assert NUMBER.sub("N", shown) == NUMBER.sub("N", expected)
                    assert _values(shown) == pytest.approx(_values(expected), rel=0.1)
                elif expected:
                    assert shown == expected


@contextlib.contextmanager
def _registries_as_before() -> object:
    from dpbandits.privacy import MECHANISMS

    yield
    if "one-bit" in MECHANISMS:
        MECHANISMS.remove("one-bit")
        sys.modules.pop("one_bit", None)


def test_pages_that_run_elsewhere_do_so() -> None:
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), page
        assert "```" in PAGES[page]
    for name, text in PAGES.items():
        if "```sh\n" in text:
            assert name in (*ELSEWHERE, "docs/start/five-minutes.md"), name


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.module}.{name.name}")
def test_the_example_of_a_public_name_runs(name: _api.Name, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    example = name.doc.sections["Example"]
    test = doctest.DocTestParser().get_doctest(example, {"__name__": "example"}, name.name, None, None)
    said = io.StringIO()
    outcome = doctest.DocTestRunner().run(test, out=said.write)
    assert outcome.attempted > 0
    assert outcome.failed == 0, said.getvalue()


# Transcripts: `$ dpbandits …` in an indented block, and the lines after it. `…` stands for anything.
SERVED = "serve --conformance"  # runs until it is stopped: tests/cli/test_service_commands.py
TRANSCRIPT = re.compile(r"^ {4}\$ dpbandits ((?:.*\\\n)*.*)\n((?: {4}.*\n)*)", re.MULTILINE)
TRANSCRIPTS = [
    (name, command.replace("\\\n", " "), output)
    for name, text in PAGES.items()
    for command, output in re.findall(
        r"^ {4}\$ dpbandits ((?:.*\\\n)*.*)\n((?: {4}.*\n)*)", text, re.MULTILINE
    )
    if not command.startswith(SERVED)
]


@pytest.mark.parametrize(("page", "command", "output"), TRANSCRIPTS, ids=lambda text: str(text)[:40])
def test_a_transcript_shows_what_the_command_prints(
    page: str, command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        cli.main(shlex.split(command))
    lines = [line for line in output.splitlines() if line.strip()]
    assert lines
    for line in lines:
        pattern = ".*".join(re.escape(part) for part in line.strip().split("…"))
        assert re.search(pattern, shown.getvalue()), line


COMMAND = re.compile(r"\s*(?:\$ )?(?:\w+=\$\()?(?:\S*/)?dpbandits ([a-z]+ (?:(?! \d?>)[^#|>&)…])*)")


def test_every_command_on_a_page_has_these_options() -> None:
    checked, wrong = 0, list[str]()
    for name, text in PAGES.items():
        blocks = re.findall(r"^(?: {4,}.*\n(?:\n(?= {4}))?)+", text, re.MULTILINE)
        blocks += [code for kind, code, _ in BLOCK.findall(text) if kind == "sh"]
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            command = re.match(
                r"\s*(?:\$ )?(?:\w+=\$\()?(?:\S*/)?dpbandits ([a-z]+ (?:(?! \d?>)[^#|>&)…])*)", line
            )
            if command is None or command[1].split()[0] not in cli.COMMANDS:
                continue
            checked += 1
            problem = _refused(shlex.split(command[1]))
            if problem:
                wrong.append(f"{name}: {line.strip()}: {problem}")
    assert checked > 40
    assert wrong == []


def _refused(words: list[str]) -> str:
    """Return which option the parser does not know, or nothing."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            cli._parser(words).parse_args(words)
        except SystemExit:
            return (
                said.getvalue() if "unrecognized" in said.getvalue() or "ambiguous" in said.getvalue() else ""
            )
        except argparse.ArgumentError as error:
            return str(error)
    return ""


def test_a_wrong_option_on_a_page_is_found() -> None:
    assert "unrecognized" in _refused(["plan", "--participant-count", "5"])
    assert _refused(["plan", "--participants", "5"]) == ""


def test_the_five_minute_page_works_as_written(tmp_path: Path) -> None:
    """Follow the page literally, except the installation; `make five-minutes` follows that too."""
    page = PAGES["docs/start/five-minutes.md"]
    blocks = [code for kind, code, _ in BLOCK.findall(page) if kind == "sh"]
    assert "pip install" in blocks[0]
    binary = tmp_path / ".venv" / "bin"
    binary.mkdir(parents=True)
    (binary / "python").symlink_to(sys.executable)
    script = "\n".join(blocks[1:]).replace(".venv/bin/python", sys.executable)
    ran = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    (expected,) = re.findall(r"It prints, up to the noise:\n\n```text\n(.*?)```", page, re.DOTALL)
    head = re.compile(r"^\w+ {2,}", re.MULTILINE)
    assert head.findall(ran.stdout) == head.findall(expected)
    # Both are rated 0.6 above all others, which is six standard errors: others win with probability 10⁻⁸.
    assert re.search(r"^best {7}(?:student|night): ", ran.stdout)
    assert (tmp_path / "study.html").stat().st_size > 2000


INDENTED = re.compile(r"^(?: {4}(?:from|import) \S.*\n)(?:(?: {4}.*)?\n)*?(?=^\S|\Z)", re.MULTILINE)


def test_indented_python_on_a_page_runs() -> None:
    blocks = [(name, block) for name, text in PAGES.items() for block in INDENTED.findall(text)]
    assert len(blocks) >= 2
    for _, block in blocks:
        exec(textwrap.dedent(block), {})
