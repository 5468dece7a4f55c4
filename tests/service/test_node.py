"""A client for Node, written from docs/protocol.md, passes the vectors and takes part in live studies."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scipy.special import ive
from scipy.stats import chi2

from dpbandits.privacy import PrivacyRequest
from dpbandits.service.actuator import Actuator, play_all
from dpbandits.service.coordinator import Context, Coordinator, HttpLink, coordinator_app
from dpbandits.service.shared import Limits, RoleTokens, ShufflerAddress, Timing, Transport
from dpbandits.service.shuffler import Shuffler, ShufflerContext, shuffler_app
from dpbandits.service.wire import KeyPair, hashed, new_secret
from dpbandits.storage import MemoryStore

from .helpers import THETA, small_study
from .live import served
from .processes import free_port

HERE = Path(__file__).parent
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed: the client for Node cannot run")

COHORTS = (6, 10)
# trust, mode, noise of the study, kind of its mechanism
STUDIES = [
    ("none", None, None, "none"),
    ("central", None, "k-norm", "central-lattice"),
    ("local", None, "list", "local-list"),
    ("local", None, "k-norm", "local-lattice"),
    ("shuffle", "trusted", "binomial", "shuffled-bits"),
    ("shuffle", "split", "discrete-gaussian", "summed-shares"),
    ("shuffle", "split", "polya", "summed-shares"),
]


def _node(script: str, *arguments: str) -> subprocess.Popen[str]:
    assert NODE is not None
    command = [NODE, str(HERE / "node" / script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _output(process: subprocess.Popen[str], seconds: float = 60) -> str:
    try:
        out, trouble = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, trouble[-2000:]
    return out


def test_the_client_is_short_and_uses_only_the_standard_library() -> None:
    text = (HERE / "node" / "client.mjs").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    sources = [line.split(" from ")[1] for line in text.splitlines() if line.startswith("import ")]
    assert all(source.startswith('"node:') for source in sources)


def test_the_client_passes_all_vectors() -> None:
    out = _output(_node("check_vectors.mjs", str(HERE / "vectors")))
    counts = {path.stem: len(json.loads(path.read_text())) for path in (HERE / "vectors").glob("*.json")}
    assert out.splitlines() == [
        f"{name}: {counts[name]} vectors" for name in ("secrets", "sealing", "reports", "plans", "exchanges")
    ]


def test_a_wrong_vector_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(HERE / "vectors", tmp_path / "vectors")
    path = tmp_path / "vectors" / "reports.json"
    cases = json.loads(path.read_text())
    cases[-1]["plaintext"] = "00" + cases[-1]["plaintext"][2:]
    path.write_text(json.dumps(cases))
    process = _node("check_vectors.mjs", str(tmp_path / "vectors"))
    _, trouble = process.communicate(timeout=60)
    assert process.returncode != 0
    assert cases[-1]["name"] in trouble


@contextlib.contextmanager
def _live(
    trust: str, mode: str | None, noise: str | None, reward_range: tuple[float, float] | None = None
) -> Iterator[tuple[str, Coordinator, str]]:
    """Serve a study over HTTP; yield its address, its coordinator, and the actuator's token."""
    request = PrivacyRequest(trust=trust, epsilon=20, delta=1e-3, noise=noise)
    tokens = {role: new_secret() for role in ("actuator", "coordinator")}
    roles = RoleTokens(hashes={role: hashed(token) for role, token in tokens.items()})
    limits = Limits(burst=10_000)
    with contextlib.ExitStack() as running:
        address = link = None
        if mode is not None:
            keys = KeyPair.new()
            shuffler = Shuffler(ShufflerContext(keys=keys, mode=mode), MemoryStore())
            url = running.enter_context(served(shuffler_app(shuffler, roles, limits)))
            address = ShufflerAddress(url=url, key=str(keys.public), mode=mode)
            link = HttpLink(url, tokens["coordinator"])
            running.callback(link._transport.close)
        port = free_port()  # the shuffler has its port already
        context = Context(
            study=small_study(trust, privacy=request, reward_range=reward_range),
            keys=KeyPair.new(),
            timing=Timing(report_seconds=8 if mode else 60, poll_seconds=0.2),
            shuffler=address,
            url=f"http://127.0.0.1:{port}",
        )
        coordinator = Coordinator(context, MemoryStore(), link)
        url = running.enter_context(served(coordinator_app(coordinator, roles, limits), port))
        yield url, coordinator, tokens["actuator"]


def _ignore(_action: int, _rounds: int) -> None: ...


def _codes(coordinator: Coordinator, count: int) -> list[str]:
    codes = coordinator.operator.new_codes(count).codes
    coordinator.writer.run("codes", lambda t: coordinator.operator.keep_codes(t, codes))
    return list(codes)


def _settings(directory: Path, coordinator: Coordinator, trust: str, **changes: Any) -> str:
    rewards = (coordinator.context.study.actions.matrix @ THETA).tolist()
    settings = {
        # The closed forms are not tight, so the user agrees to more than the terms promise.
        "epsilon": 30.0, "delta": 1e-3, "trusts": [trust], "pinned": coordinator.context.name,
        "rewards": rewards, "memory": str(directory / "memory"),
    }  # fmt: skip
    (directory / "settings.json").write_text(json.dumps(settings | changes))
    return str(directory / "settings.json")


@pytest.mark.parametrize(("trust", "mode", "noise", "kind"), STUDIES)
def test_it_takes_part_in_a_whole_study(
    trust: str, mode: str | None, noise: str | None, kind: str, tmp_path: Path
) -> None:
    with _live(trust, mode, noise) as (url, coordinator, token), Transport() as transport:
        settings = _settings(tmp_path, coordinator, trust)
        codes = _codes(coordinator, sum(COHORTS))
        clients = [_node("client.mjs", url, code, settings) for code in codes]
        playing = threading.Thread(
            target=play_all, args=(Actuator(url, token, transport), _ignore), daemon=True
        )
        playing.start()
        told = [json.loads(_output(client)) for client in clients]
        playing.join(60)
        assert not playing.is_alive()
        results = coordinator.writer.run("read", coordinator.operator.results)
    assert Counter((one["state"], one["kind"]) for one in told) == {("sent", kind): sum(COHORTS)}
    assert all(0 < one["seconds_left"] <= 60 for one in told)
    assert [json.loads(bytes(one.release))["reports"] for one in results.phases] == list(COHORTS)
    assert all(one.plausible for one in results.phases)
    best = max(range(12), key=lambda a: float(coordinator.context.study.actions.matrix[a] @ THETA))
    assert best in results.active
    if trust == "none":  # without noise the estimate is exact
        assert math.dist(results.estimate, THETA.tolist()) < 1e-6


@pytest.mark.parametrize(
    ("trust", "noise", "changes", "told"),
    [
        ("local", "list", {"epsilon": 19.9}, "the terms promise too little"),
        ("local", "list", {"trusts": ["shuffle"]}, "version or trust"),
        ("local", "list", {"pinned": "0" * 64}, "these are other terms"),
        ("local", "list", {"conformance": True}, "version or trust"),
        ("local", "list", {"reward_range": (0, 10)}, "this client lacks one of"),
        ("shuffle", "discrete-gaussian", {}, "mode/verified"),
    ],
)
def test_it_refuses_before_it_enrols(
    trust: str, noise: str, changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    changes = dict(changes)
    ends = changes.pop("reward_range", None)
    with _live(trust, "verified" if trust == "shuffle" else None, noise, ends) as (url, coordinator, _):
        (code,) = _codes(coordinator, 1)
        process = _node("client.mjs", url, code, _settings(tmp_path, coordinator, trust, **changes))
        _, trouble = process.communicate(timeout=60)
        with coordinator.store.transaction() as transaction:
            assert transaction.latest() is None or transaction.latest().joined == 0  # type: ignore[union-attr]
    assert process.returncode != 0
    assert told in trouble


DRAWS = 10_000
FALSE_ALARM = 1e-6
SCALE = 3.5
LAWS: dict[str, tuple[dict[str, Any], Callable[[int, float], float]]] = {
    "discrete-gaussian": ({}, lambda x, scale: math.exp(-((x / scale) ** 2) / 2)),
    "laplace": ({}, lambda x, scale: math.exp(-abs(x) / scale)),
    # The larger of two numbers in absolute value: there are 8r points at distance r > 0.
    "k-norm": ({"coordinates": 2}, lambda x, scale: (8 * x or 1) * math.exp(-x / scale) if x >= 0 else 0.0),
    "polya": (
        {"kind": "summed-shares", "least_reports": 5, "silent_share": 0.0},
        lambda x, scale: sum(_half(k + max(x, 0), scale) * _half(k + max(-x, 0), scale) for k in range(120)),
    ),
    "skellam": (
        {"kind": "summed-shares", "scale": 1.5},
        lambda x, scale: float(ive(abs(x), (scale * 1.5 / SCALE) ** 2)),
    ),
    "binomial": (
        {"kind": "shuffled-bits", "noise_bits": 25},
        lambda x, scale: math.comb(25, x) * (scale / 7) ** x * (1 - scale / 7) ** (25 - x) if x >= 0 else 0.0,
    ),
}


def _half(x: int, scale: float) -> float:
    """Return the weight of one of the two variables of a Pólya share of five clients."""
    return math.exp(math.lgamma(x + 0.2) - math.lgamma(0.2) - math.lgamma(x + 1) - x / scale)


def _fits(drawn: Counter[int], weight: Callable[[int, float], float], scale: float) -> bool:
    """Test the draws with Pearson's χ². A correct sampler fails with probability `FALSE_ALARM`."""
    weights = {x: weight(x, scale) for x in range(-100, 101) if x <= 25 or weight is not LAWS["binomial"][1]}
    total = sum(weights.values())
    likely = {x: DRAWS * w / total for x, w in weights.items() if DRAWS * w / total >= 10}
    rest, others = DRAWS - sum(likely.values()), DRAWS - sum(drawn[x] for x in likely)
    square = sum((drawn[x] - mean) ** 2 / mean for x, mean in likely.items())
    square += (others - rest) ** 2 / max(rest, 10.0)
    return bool(chi2.sf(square, len(likely)) > FALSE_ALARM)


@pytest.mark.parametrize("noise", LAWS)
def test_its_noise_has_the_distribution_of_the_page(noise: str) -> None:
    fields, weight = LAWS[noise]
    mechanism = {"kind": "local-lattice", "noise": noise, "scale": SCALE, "coordinates": 1, **fields}
    script = f"""
        import {{ secure }} from {json.dumps((HERE / "node" / "client.mjs").as_uri())};
        const m = {json.dumps(mechanism)};
        for (let i = 0; i < {DRAWS}; i++) console.log(secure.noise(m).join(" "));
    """
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-1000:]
    rows = [[int(x) for x in line.split()] for line in done.stdout.splitlines()]
    drawn = Counter(max(map(abs, row)) if noise == "k-norm" else row[0] for row in rows)
    assert _fits(drawn, weight, SCALE)
    # A wrong scale is noticed. The test misses it with probability below 1e-9 (Pólya; the others: less).
    assert not _fits(drawn, weight, SCALE * 1.3)
