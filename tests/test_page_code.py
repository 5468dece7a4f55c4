"""Every code block of every page is run, or checked in the way that its kind allows; outputs are compared.

`HOW` says for each block how; `python -m tests.test_page_code` prints it. The commands of a page run in one
shell, in one folder, as processes that start at once (tests/forking.py). Its Python runs before them.
Programs that would change the machine, such as `docker`, only check their words (tests/stand_ins.py).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import inspect
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs._site import _api, _http
from docs._site._blocks import Block, blocks_of, turns
from docs._site._staging import ROOT, written

from dpbandits import cli
from dpbandits.federation._site_file import _SITE
from dpbandits.service.config import _sections
from tests.plugin_package import install
from tests.service.processes import free_port
from tests.stand_ins import called, refused
from tests.world.files import cellular_text, ranking_text

PAGES = {path.relative_to(ROOT).as_posix(): path for path in [*written(), ROOT / "README.md"]}
BLOCKS = {name: blocks_of(path, ROOT) for name, path in PAGES.items()}
NAMES = _api.public_names()

# Blocks with these words, which other tests run.
ELSEWHERE = {
    "from dpbandits.service.client import AsyncClient": "tests/service/test_own_client.py",
    "from dpbandits.service.actuator import Actuator": "tests/service/test_own_client.py",
    "python examples/rand_insurance.py": "tests/examples/test_rand_insurance.py",
}
# Python that is a part of a file, which tests run.
EXCERPTS = {
    "docs/how-to/new-mechanism.md": "examples/one_bit.py",
    "docs/how-to/new-reward-model.md": "tests/protocol/toy_reward_model.py",
    "docs/how-to/new-trust-model.md": "tests/privacy/toy_trust_model.py",
}
# Commands that cannot run here, and what runs them. Their options are checked.
NOT_RUN = {
    "dpbandits federate STUDY.toml": "Flower has an environment of its own: tests/federation/test_flower.py",
    "dpbandits federate study.toml": "Flower has an environment of its own: tests/federation/test_flower.py",
    "dpbandits federate site": "Flower has an environment of its own: tests/federation/test_flower.py",
    "dask scheduler": "a cluster of several machines: tests/simulation runs one on this machine",
    "dpbandits serve --conformance": "runs until it is stopped: tests/cli/test_service_commands.py",
    "dpbandits reproduce": "takes a minute: tests/cli/test_reproduce.py runs each item with fewer runs",
    "benchmarks/": "takes minutes: benchmarks are not tests",
}
# A page whose commands need the files of another page, and the command before which they run.
AFTER = {
    "docs/reports.md": ("docs/deploying.md", "dpbandits keys destroy"),
    "docs/dashboard.md": ("docs/deploying.md", "dpbandits keys destroy"),
}
RUN = ("python", "sh", "console")
OTHERS = {
    "toml": "read, and its keys are known",
    "json": "has the fields of a message",
    "http": "the request exists",
    "bibtex": "tests/test_site.py compares the version",
}
_PROGRAM = (
    rf"(?:\S*/)?(?:dpbandits (?:{'|'.join(cli.COMMANDS)})|python3?|pip|make|curl|docker|sudo|git|pytest)"
)
CODE = re.compile(rf"^\s*(?:\$ |>>> |(?:\w+=\$\()?{_PROGRAM}(?:\s|$)|(?:from|import) \w)", re.MULTILINE)


def _how(name: str, number: int) -> str:
    """Return how a block is checked, or nothing."""
    block = BLOCKS[name][number]
    if block.is_output and number and _how(name, number - 1) and BLOCKS[name][number - 1].language in RUN:
        return f"compared with what line {BLOCKS[name][number - 1].line} prints"
    for words, test in ELSEWHERE.items():
        if block.language in RUN and words in block.text:
            return test
    if block.language == "python" and _is_excerpt(block):
        return f"a part of {EXCERPTS[name]}"
    for command, reason in NOT_RUN.items():
        if block.language in RUN[1:] and command in block.text:
            return f"not run: {reason}"
    if block.fenced and block.language in RUN:
        return "run"
    if block.fenced and block.language in OTHERS:
        return OTHERS[block.language]
    return "shown" if block.language in ("", "text") and not CODE.search(block.text) else ""


def _is_excerpt(block: Block) -> bool:
    return block.page in EXCERPTS and block.text in (ROOT / EXCERPTS[block.page]).read_text(encoding="utf-8")


HOW = {(name, number): _how(name, number) for name in PAGES for number in range(len(BLOCKS[name]))}


def test_every_block_is_run_or_checked() -> None:
    unchecked = [BLOCKS[name][number].where for (name, number), how in HOW.items() if not how]
    assert unchecked == []
    shown = [BLOCKS[name][number] for (name, number), how in HOW.items() if how == "shown"]
    assert [one.where for one in shown if one.fenced and one.language == ""] == []  # a language, or indented
    for test in ELSEWHERE.values():
        named = {Path(name).name for (name, _), how in HOW.items() if how == test}
        assert any(name in (ROOT / test).read_text(encoding="utf-8") for name in named), test
    assert sum(how == "run" for how in HOW.values()) > 80


def test_a_block_that_nothing_runs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "It is so:\n\n    dpbandits plan\n\n```ruby\nputs 1\n```\n\n    x = y + 1\n\n```text\n$ ls\n```\n"
    )
    monkeypatch.setitem(BLOCKS, "page.md", blocks_of(page, tmp_path))
    assert [_how("page.md", number) for number in range(4)] == ["", "", "shown", ""]


# What the text around a page's blocks provides: files, and names of its Python.
OPTIONS = "name,price,network,gigabytes\n" + "".join(
    f"{name},{price},{network},{size}\n"
    for name, price, network, size in [
        *[("basic", 10, "red", 5), ("plus", 15, "blue", 20), ("max", 29, "red", 100), ("mini", 5, "blue", 1)],
        *[("night", 8, "red", 10), ("student", 9, "blue", 20)],
    ]
)
STUDY = """[study]
actions = "actions.csv"
horizon = 2000
[privacy]
trust = "central"
[schedule]
cohorts = [50]
"""
ACTIONS = "0.9,0.1\n0.5,0.5\n0.2,0.9\n0.7,0.6\n"
FILES = {
    "README.md": {"plans.csv": OPTIONS, "actions.csv": ACTIONS},
    "docs/choose/participants.md": {"plans.csv": OPTIONS},
    "docs/auditing.md": {"actions.csv": ACTIONS, "a.toml": STUDY, "b.toml": STUDY.replace("50", "60")},
    "docs/federation.md": {"actions.csv": ACTIONS, "sites/none": ""},
    "docs/real-data.md": {
        "people.csv": "plan,reward\n"
        + "".join(f"{plan},{-(i % 5)}\n" for plan in "abc" for i in range(2000)),
        "coloran.csv": cellular_text(),
        "train.txt": ranking_text(queries=24, features=25),
    },
}
BEFORE = {
    "README.md": "def rate(name, rng):\n    return len(name) + rng.uniform(-1, 1)\n",
    "docs/how-to/new-mechanism.md": f"""
import sys
from dataclasses import dataclass
from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate
register = lambda made: made  # the page shows a part of the class that examples/one_bit.py registers
sys.path.insert(0, {str(ROOT / "examples")!r})
""",
    "docs/how-to/new-reward-model.md": f"import sys\nsys.path.insert(0, '{ROOT}/tests/protocol')\n",
    "docs/how-to/new-trust-model.md": f"import sys\nsys.path.insert(0, '{ROOT}/tests/privacy')\n",
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
    "docs/federation.md": """
import types
database = types.SimpleNamespace(names=lambda: ["ann", "bob"])
measure = lambda user, action, plays: len(user) + action / plays
""",
    "docs/real-data.md": """
import dpbandits as dp
options = dp.Options.from_table({"name": ["a", "b", "c"], "share": [0, 25, 95]})
""",
    "docs/how-to/new-store.md": """
import contextlib
from dpbandits.storage import Transaction
class Database:
    def begin(self):
        return contextlib.nullcontext("connection")
    def close(self):
        self.closed = True
""",
}
# What must hold after the Python of a page.
AFTERWARDS = {
    "docs/federation.md": """
plan = types.SimpleNamespace(support=[0, 3], plays=[1, 2])
assert Clinic().averages(Clinic().users(), plan) == [[3, 4.5], [3, 4.5]]
""",
    "docs/options.md": """
assert found.best in ("student", "night")  # rated 0.35 above others, which is six standard errors
assert s.over
import os
assert os.path.getsize("study.html") > 2000
""",
}
# Shell commands that run before a block, if its text contains these words.
FIRST = {
    "dpbandits keys destroy coordinator/study.toml": "cp coordinator/reports.pem kept.pem",
    "/opt/dpbandits/bin/pip": f"cp kept.pem coordinator/reports.pem; ln -s {ROOT}/deploy .; mkdir systemd",
}
# Ports and folders that are others here, and programs of the system.
PORTS = ("8443", "8444", "8445")
REAL = ("awk", "curl", "sed", "sqlite3", "ssh-keygen")
REPLACED = {
    "/opt/dpbandits": "$HERE/opt",
    "/etc/dpbandits": "$HERE/etc",
    "/etc/systemd/system/": "$HERE/systemd/",
}
SEEDED = "__import__('dpbandits').SimulatedNoise(__import__('numpy').random.default_rng(1))"
# Pages whose numbers may move a little from version to version.
APPROXIMATE = ("docs/research/compare.md", "docs/gallery/")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")

DRIVER = """
import contextlib, json, sys
scope = {"__name__": "__main__"}
with open(sys.argv[1]) as file:
    pieces = json.load(file)
for out, page, line, code in pieces:
    with open(out, "w") as shown, contextlib.redirect_stdout(shown):
        exec(compile("\\n" * (line - 1) + code, page, "exec"), scope)
"""


def _run_here(name: str) -> list[tuple[int, Block]]:
    return [(number, block) for number, block in enumerate(BLOCKS[name]) if HOW[name, number] == "run"]


def _prepared(name: str, folder: Path) -> None:
    """Write the files that the page speaks of."""
    for file, text in FILES.get(name, {}).items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    for block in BLOCKS[name]:
        named = re.search(r"`(\w+\.toml)`:$", block.introduction)
        if block.language == "toml" and named:
            (folder / named[1]).write_text(block.text)
    source = (ROOT / "examples" / "one_bit.py").read_text(encoding="utf-8")
    if name == "docs/how-to/new-mechanism.md":
        entry = "one-bit = one_bit"
        install(folder / "site", package="dpbandits-one-bit", module="one_bit", source=source, entry=entry)
    if name.startswith("docs/gallery/"):
        (folder / "examples").symlink_to(ROOT / "examples")


def _python(name: str) -> list[tuple[str, str, int, str]]:
    """Return the pieces of a page's Python: where the output goes, the page, the line, and the code."""
    pieces = [("out/before", "before", 1, BEFORE.get(name, ""))]
    for number, block in _run_here(name):
        if block.language == "python":
            # A block has its own store. Noise is seeded: an audit fails wrongly now and then.
            code = block.text.replace("study.sqlite", f"{number}.sqlite").replace("SecureNoise()", SEEDED)
            pieces.append((f"out/{number}", name, block.line, code))
    return [*pieces, ("out/after", "after", 1, AFTERWARDS.get(name, ""))]


def _shell(name: str) -> str:
    """Return the commands of a page as one script. Each block and each command of a transcript has a file."""
    lines = list[str]()
    for number, block in _run_here(name):
        for words, commands in FIRST.items():
            lines += [commands] if words in block.text and block.language != "python" else []
        for page, (other, words) in AFTER.items():
            lines += [_shell(page)] if other == name and words in block.text else []
        out = f'"$HERE/out/{Path(name).stem}-{number}'
        if block.language == "sh":
            text = block.text
            small = "" if _output(name, number) else "small"
            lines += [f"PAGE_SIZES={small}", f'exec > {out}" 2> {out}.err"', text]
        elif block.language == "console":
            for turn, (command, _) in enumerate(turns(block.text)):
                lines += ["PAGE_SIZES=", f'exec > {out}.{turn}" 2>&1', "set +e", command, "set -e"]
    script = "\n".join(lines)
    for here, there in REPLACED.items():
        script = script.replace(here, there)
    return script


def _output(name: str, number: int) -> Block | None:
    """Return the block that says what another block prints, if there is one."""
    after = BLOCKS[name][number + 1 : number + 2]
    return after[0] if after and after[0].is_output else None


def _differs(shown: str, expected: str, page: str, introduction: str = "") -> bool:
    """Return whether an output differs from that on the page. There … stands for anything, or for lines."""
    if "up to the noise" in introduction:
        # A warning that phases contradict each other is an accident of the noise in one of some 10⁴ studies.
        heads = re.compile(r"^(?!warning )\S+", re.MULTILINE)
        return heads.findall(shown) != heads.findall(expected)
    if page.startswith(APPROXIMATE):
        shown_values, expected_values = (
            [_value(one) for one in NUMBER.findall(text)] for text in (shown, expected)
        )
        same_words = NUMBER.sub("N", shown) == NUMBER.sub("N", expected)
        return not same_words or shown_values != pytest.approx(expected_values, rel=0.1, abs=0.02)
    lines = [r"(?:.*\n)*" if line.strip() == "…" else _pattern(line) for line in expected.splitlines()]
    return re.fullmatch("".join(lines), "".join(f"{line.rstrip()}\n" for line in shown.splitlines())) is None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"\n"


def _value(number: str) -> float:
    return float(number.replace(",", ""))


@pytest.mark.parametrize("name", [name for name in PAGES if _run_here(name) and name not in AFTER])
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    name: str, programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    _prepared(name, tmp_path)
    (out / "python.json").write_text(json.dumps(_python(name)))
    (out / "driver.py").write_text(DRIVER)
    ports = {port: str(free_port()) for port in PORTS}
    has_python = any(block.language == "python" for _, block in _run_here(name))
    script = f"{'python out/driver.py out/python.json' if has_python else ''}\n{_shell(name)}\n"
    status = _bash(_replaced(script, ports), programs, tmp_path)
    for path in out.iterdir():  # as if the ports had been free
        text = path.read_text(encoding="utf-8", errors="replace")
        path.write_text(_replaced(text, {here: port for port, here in ports.items()}), encoding="utf-8")
    assert status == 0, _tail(out)
    assert _wrong_outputs(name, out) == []
    for page, (other, _) in AFTER.items():
        assert other != name or _wrong_outputs(page, out) == []


def _replaced(text: str, by: dict[str, str]) -> str:
    for one, other in by.items():
        text = text.replace(one, other)
    return text


def _bash(script: str, programs: Path, folder: Path) -> int:
    """Run a script; return its status. Processes that it leaves in the background are ended."""
    missing = [
        name for name in REAL if re.search(rf"^\W*{name} ", script, re.MULTILINE) and not shutil.which(name)
    ]
    if missing:
        pytest.skip(f"{missing[0]} is missing")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "HERE": str(folder), "PYTHONPATH": str(folder / "site"), "NO_PROXY": "*"}
    text = f"set -e\nexport PAGE_SIZES\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{script}"
    command = ["bash", "-c", text]
    with (
        (folder / "out" / "shell").open("w") as said,
        subprocess.Popen(
            command, cwd=folder, env={**os.environ, **own}, stdout=said, stderr=said, start_new_session=True
        ) as ran,
    ):
        try:
            return ran.wait(timeout=600)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ran.pid, signal.SIGKILL)


def _tail(folder: Path) -> str:
    """Return the end of the latest outputs."""
    latest = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)[-3:]
    return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in latest)


def _wrong_outputs(name: str, folder: Path) -> list[str]:
    """Return what blocks printed that is not what the page says."""
    wrong = list[str]()
    for number, block in _run_here(name):
        stem = str(number) if block.language == "python" else f"{Path(name).stem}-{number}"
        expected = _output(name, number)
        if block.language == "console":
            for turn, (command, text) in enumerate(turns(block.text)):
                shown = (folder / f"{stem}.{turn}").read_text(encoding="utf-8")
                if _differs(shown, text, name):
                    wrong.append(f"{block.where}: {command}\n{shown}")
        elif expected is not None:
            shown = (folder / stem).read_text(encoding="utf-8")
            if _differs(shown, expected.text, name, expected.introduction):
                wrong.append(f"{expected.where}\n{shown}")
    return wrong


def test_another_output_than_that_of_the_page_is_found() -> None:
    page = "lead       0.052 over 14 per month [-0.093, 0.197]\n"
    for name in ("docs/gallery/prices.md", "docs/design.md"):
        assert not _differs(page, page, name)
        assert _differs(page.replace("14 per", "16 years per"), page, name)
        assert _differs(page.replace("0.197", "0.25"), page, name)
    assert not _differs("a 1\nb\nc\nd 2\n", "a …\n…\nd 2\n", "docs/design.md")
    assert _differs("a 1\nb\nd 3\n", "a …\n…\nd 2\n", "docs/design.md")
    assert _differs("a\n", "b\n", "docs/design.md", "It prints, up to the noise:")


def test_a_command_that_fails_is_found(programs: Path, tmp_path: Path) -> None:
    own = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for command in ("pip install '.[nothing]'", "make nothing", "dpbandits plan --participant-count 5"):
        ran = subprocess.run(
            ["bash", "-ec", f"{command}; echo went on"], cwd=tmp_path, env=own, capture_output=True
        )
        assert ran.returncode != 0
        assert b"nothing" in ran.stderr or b"participant-count" in ran.stderr
        assert ran.stdout == b""


def test_commands_that_do_not_run_have_their_options() -> None:
    wrong, checked = list[str](), 0
    for (name, number), how in HOW.items():
        if not how.startswith(("not run", "tests/")) or BLOCKS[name][number].language == "python":
            continue
        for line in BLOCKS[name][number].text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words[:1] == ["dpbandits"]:
                checked += 1
                wrong += [f"{name}: {line}" for problem in [refused(words[1:])] if problem]
            elif words[:1] == ["pip"]:
                wrong += [line] if called(words[0], words[1:]) else []
    assert checked >= 6
    assert wrong == []
    assert "unrecognized" in refused(["plan", "--participant-count", "5"])


# Commands in the text, between single backquotes.
PREFIXES = ("v1", "conformance", "order")  # of bytes that the wire protocol defines
INLINE = re.compile(r"(?<!`)`dpbandits ([a-z]+(?: [^`]*)?)`(?!`)")


def test_every_command_in_the_text_has_these_options() -> None:
    checked, wrong = 0, list[str]()
    for name, path in PAGES.items():
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for command in INLINE.findall(text):
            words = shlex.split(command.replace("…", " ").replace("\n", " "))
            if words[0] not in cli.COMMANDS and words[0] not in PREFIXES:
                wrong.append(f"{name}: {command}")
            options = {word.split("=")[0] for word in words if word.startswith("--")}
            checked += bool(options)
            wrong += [f"{name}: {command}: {option}" for option in options - _options_of(words)]
    assert checked > 30
    assert wrong == []


def _options_of(words: list[str]) -> set[str]:
    """Return all options of a command and its own commands."""
    found, parsers = {"--help", "--version"}, [cli._parser(words[:1])]
    while parsers:
        for action in parsers.pop()._actions:
            found |= set(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                parsers += [
                    one for name, one in action.choices.items() if name in cli.COMMANDS or name in words
                ]
    return found


TOML = [block for blocks in BLOCKS.values() for block in blocks if block.language == "toml"]


@pytest.mark.parametrize("block", TOML, ids=lambda block: block.where)
def test_a_file_on_a_page_is_read(block: Block) -> None:
    content = tomllib.loads(block.text)
    if "project" in content:
        assert content["project"].keys() == {"name", "version", "dependencies", "entry-points"}
        return
    known = _sections.STUDY if "site" not in content else _SITE
    for section, keys in content.items():
        assert set(keys) <= set(known[section]), section


MESSAGES = [block for blocks in BLOCKS.values() for block in blocks if block.language in ("json", "http")]


@pytest.mark.parametrize("block", MESSAGES, ids=lambda block: block.where)
def test_a_message_on_a_page_has_the_fields_of_the_api(block: Block) -> None:
    described = [_http.described(party) for party in ("coordinator", "shuffler")]
    if block.language == "http":
        method, path = block.text.split()[:2]
        assert method.lower() in described[0]["paths"][path]
    schemas = [one for api in described for one in api["components"]["schemas"].values()]
    fields = [set(schema["properties"]) for schema in schemas if "properties" in schema]
    found = re.findall(r"^(?:200 )?(\{.*?\})$", block.text, re.MULTILINE | re.DOTALL)
    assert found
    for text in found:
        message = json.loads(re.sub(r",…|…,", "", text), strict=False)
        assert set(message) in fields, sorted(message)


def _examples() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every docstring with an example: of modules, classes and functions."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if ">>>" in text:
                    yield f"{path.relative_to(ROOT / 'src')}:{getattr(node, 'lineno', 1)}", text


EXAMPLES = dict(_examples())


def test_examples_of_modules_and_of_public_names_are_found() -> None:
    assert len([place for place in EXAMPLES if place.endswith(":1")]) >= 5
    found = {*EXAMPLES.values()}
    assert [name.name for name in NAMES if inspect.cleandoc(name.value.__doc__) not in found] == []


@pytest.mark.parametrize("place", EXAMPLES)
def test_the_examples_of_a_docstring_run(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    test = doctest.DocTestParser().get_doctest(EXAMPLES[place], {"__name__": "example"}, place, None, None)
    said = io.StringIO()
    outcome = doctest.DocTestRunner().run(test, out=said.write)
    assert outcome.attempted > 0
    assert outcome.failed == 0, said.getvalue()


if __name__ == "__main__":
    for (name, number), how in HOW.items():
        block = BLOCKS[name][number]
        print(f"{block.where:<40} {block.language or '-':<8} {how or 'NOTHING CHECKS IT'}")
    sys.exit("" in HOW.values())
