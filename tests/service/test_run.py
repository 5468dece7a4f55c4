"""A real server process: a port that is in use, the limit on open files, and a clean end on a signal."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from dpbandits.cli._serve_example import serving
from dpbandits.errors import InvalidValue
from dpbandits.service.shared import Listening, server_for

from .processes import ENVIRONMENT, Site


@pytest.mark.parametrize("name", ["coordinator", "shuffler"])
def test_a_port_in_use_is_one_line_before_anything_is_served(name: str, tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(5,))
    command, port = {
        "coordinator": (site.coordinator(), site.port),
        "shuffler": (site.shuffler(), site.shuffler_port),
    }[name]
    with socket.create_server(("127.0.0.1", port)):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
        )
    assert done.returncode == 2
    expected = f"server: got 127.0.0.1 port {port}, expected an address to listen on (Address already in use)"
    assert done.stderr.splitlines()[-1].endswith(expected)
    assert "listening" not in done.stderr.replace(expected, "")


def test_a_server_in_a_thread_whose_port_is_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = server_for(Starlette(), Listening(port=taken.getsockname()[1]))
        with pytest.raises(InvalidValue, match="Address already in use"), serving(server):
            pass


def test_the_url_of_an_ipv6_address_reaches_the_server() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as probe:
            port = probe.getsockname()[1]
    except OSError:
        pytest.skip("this machine has no IPv6")
    listening = Listening(host="::1", port=port)
    with serving(server_for(Starlette(), listening)):
        assert httpx.get(listening.url).status_code == 404  # there is a server, without any page


def test_a_party_takes_as_many_open_files_as_it_may(tmp_path: Path) -> None:
    """A shell starts a service with 1,024 open files, and every client's connection needs one."""
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(5,))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh", *site.coordinator()]
    with site.running("coordinator", few) as process:
        site.wait_ready(site.url)
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    log = (tmp_path / "coordinator.log").read_text()
    assert f"at most {hard} open files; the soft limit was 256" in log


@pytest.mark.parametrize("name", ["coordinator", "shuffler"])
def test_a_party_that_is_told_to_end_closes_its_store_and_says_so(name: str, tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(5,))
    command, url, store = {
        "coordinator": (site.coordinator(), site.url, "study.sqlite"),
        "shuffler": (site.shuffler(), site.shuffler_url, "shuffler.sqlite"),
    }[name]
    with site.running(name, command) as process:
        site.wait_ready(url)
        assert (tmp_path / f"{store}-wal").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    lines = [json.loads(line) for line in (tmp_path / f"{name}.log").read_text().splitlines()]
    assert lines[-1]["event"] == "ended"
    assert not (tmp_path / f"{store}-wal").exists()
