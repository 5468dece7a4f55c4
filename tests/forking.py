"""Programs that start at once: a server has imported the library, and each program is a fork of it.

`programs(folder)` writes small programs named `dpbandits`, `python` and so on to a folder, and starts the
server. Each program passes its words, its folder, its environment and its three open files to the server,
forwards signals, and ends with the status of the fork. So a page of commands costs no imports, and is still
run by a shell, in processes of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dpbandits
from tests import stand_ins
from tests.faults.preloaded import load_modules

ROOT = Path(__file__).parents[1]
_STARTED = "-SE"  # without site-packages and environment variables of Python: the caller imports little
_CALLER = """#!{python} {options}
import json, os, signal, socket, sys
calls = socket.socket(socket.AF_UNIX)
calls.connect({address!r})
request = {{"words": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(calls, [json.dumps(request).encode()], [0, 1, 2])
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, frame: calls.send(bytes([number])))
status = calls.recv(1)
sys.exit(status[0] if status else 70)
"""
# Sizes that are smaller than the defaults, for commands on a page that do not name them.
SMALLER = {
    "simulate": {"--runs": "1", "--horizon": "3000"},
    "audit": {"--samples": "400"},
    "plan": {"--runs": "0"},
}


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Path]:
    """Start the server, and yield the folder with the programs.

    Args:
        folder: An empty folder, with a short path.
    """
    address = str(folder / "calls")
    binary = folder / "bin"
    binary.mkdir()
    text = _CALLER.format(python=sys.executable, options=_STARTED, address=address)
    for name in ("dpbandits", "python", "python3", *stand_ins.PROGRAMS):
        (binary / name).write_text(text)
        (binary / name).chmod(0o755)
    command = [sys.executable, "-m", "tests.forking", address]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield binary
        finally:
            server.terminate()


def _serve(address: str) -> None:
    """Fork for each call, until the process is ended."""
    load_modules()
    for name in dpbandits.__all__:  # names are imported when they are first used
        getattr(dpbandits, name)
    with socket.socket(socket.AF_UNIX) as calls:
        calls.bind(address)
        calls.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while True:
            call, _ = calls.accept()
            if os.fork() == 0:
                calls.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(call)
            call.close()


def _answer(call: socket.socket) -> None:
    """Run the program of a call in another fork, pass signals on to it, and send its status."""
    text, files, _, _ = socket.recv_fds(call, 1 << 20, 3)
    process = os.fork()
    if process == 0:
        call.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        request = json.loads(text)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:0] = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
        _run(request["words"])
    for file in files:
        os.close(file)
    ended = os.pidfd_open(process)
    while ended not in (ready := select.select([ended, call], [], [])[0]):
        if call in ready:
            sent = call.recv(1)
            os.kill(process, sent[0] if sent else signal.SIGKILL)  # nothing: the caller was killed
            if not sent:
                break
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):
        call.send(bytes([status if status >= 0 else 128 - status]))
    os._exit(0)


def _run(words: list[str]) -> None:
    """Be the program: end with its status."""
    program, *rest = words
    name = Path(program).name
    sys.argv = words
    if name == "dpbandits":
        from dpbandits.cli import main

        small = SMALLER.get(rest[0], {}) if os.environ.get("PAGE_SIZES") == "small" else {}
        words = [word for option in small.items() if option[0] not in rest for word in option]
        raise SystemExit(main([*rest, *words]))
    if name in ("python", "python3") and not rest[0].startswith("-"):
        sys.argv = rest
        sys.path.insert(0, str(Path(rest[0]).parent.absolute()))
        runpy.run_path(rest[0], run_name="__main__")
        raise SystemExit(0)
    status = stand_ins.called(program, rest)
    sys.stderr.flush()
    os._exit(status)  # at once: taking down all that was imported takes longer than the check


if __name__ == "__main__":
    _serve(sys.argv[1])
