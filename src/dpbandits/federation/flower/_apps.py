"""The apps that Flower's processes run: only code that is installed here, never code from the network.

Flower sends an app with every run, and its processes `flwr-serverapp` and `flwr-clientapp` execute the code
of the app. A site that executed this code would not be protected from the operator of the SuperLink. So the
SuperExecs of a federation start the programs below instead. They are Flower's programs, except that they do
not load the app that was sent.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbandits.errors import DpbanditsError, InvalidValue
from dpbandits.federation._site import unexpected
from dpbandits.federation._site_file import SiteFile, read_site
from dpbandits.federation.flower._grid import FlowerGrid
from dpbandits.federation.flower._outcome import StudyOutcome
from dpbandits.federation.flower._versions import FILE, FLOWER
from dpbandits.privacy import NoiseSource

if TYPE_CHECKING:  # a site needs no driver, and so no SciPy
    from dpbandits.federation._study_file import FederationFile

log = logging.getLogger("dpbandits.federation")


def run_client_app(*, noise: Callable[[SiteFile], NoiseSource] | None = None) -> None:
    """Run Flower's ClientApp program, which answers one message with the site of the file in the environment.

    Args:
        noise: Returns the source of the users' noise; secure by default. Only tests pass another one.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    file = read_site(Path(os.environ[FILE]))
    _log_to(logging.StreamHandler())
    app = ClientApp()

    def answer(message: Any, context: Any) -> Any:  # noqa: ARG001
        try:
            site = file.site(noise=None if noise is None else noise(file))
            body = site.reply(bytes(message.content["request"]["body"]))
        except Exception as error:  # Flower would send the text of the error, which may contain data
            log.exception("site")
            body = unexpected(error)
        return Message(RecordDict({"reply": ConfigRecord({"body": body})}), reply_to=message)

    app.query()(answer)
    program = _program("flwr.supernode.runtime.run_clientapp")
    _replace(program, "install_from_fab", lambda *_given, **_named: None)
    _replace(program, "get_project_dir", lambda *_given: Path())
    _replace(program, "get_load_client_app_fn", lambda **_named: lambda *_given: app)
    sys.argv[0] = "flwr-clientapp"
    import_module("flwr.supernode.cli.flwr_clientapp").flwr_clientapp()


def run_server_app(*, noise: NoiseSource | None = None) -> None:
    """Run Flower's ServerApp program, which drives the study of the file in the environment.

    Args:
        noise: The source of noise for releases; secure by default. Only tests pass another one.
    """
    from dpbandits.federation._study_file import read_federation

    file = read_federation(Path(os.environ[FILE]))
    _log_to(logging.FileHandler(file.folder / "driver.log"))

    def run(*, grid: Any, context: Any, **_named: Any) -> Any:
        with _alone(file.folder / "driver.lock"):
            drive(file, grid, noise)
        return context

    program = _program("flwr.superlink.runtime.run_serverapp")
    components = {"tool": {"flwr": {"app": {"components": {"serverapp": "dpbandits"}}}}}
    _replace(program, "install_from_fab", lambda *_given, **_named: None)
    _replace(program, "get_fab_metadata", lambda *_given: ("dpbandits/federation", "0.0.0"))
    _replace(program, "get_project_dir", lambda *_given: file.folder)
    _replace(program, "get_project_config", lambda *_given: components)
    _replace(program, "get_fused_config_from_dir", lambda *_given: {})
    _replace(program, "run_", run)
    sys.argv[0] = "flwr-serverapp"
    import_module("flwr.superlink.cli.flwr_serverapp").flwr_serverapp()


def drive(file: FederationFile, grid: Any, noise: NoiseSource | None = None) -> None:
    """Run the study of a file over a Flower grid, and write the outcome to the folder of the file."""
    from dpbandits.federation._driver import FederationDriver

    sites = file.site_keys()
    store = file.store()
    try:
        nodes = FlowerGrid(grid, {name: key.pem for name, key in sites.items()})
        driver = FederationDriver(
            file.study,
            store,
            keys=file.keys,
            sites=sites,
            grid=nodes,
            patience=file.patience,
            noise=noise,
        )
        state = driver.run()
    except DpbanditsError as error:  # a new driver would probably fail in the same way
        log.exception("stopped")
        StudyOutcome(ended=False, told=str(error)).write(file.folder)
    else:
        left, told = len(state.active_actions), "ended" if state.ended else "was closed"
        StudyOutcome(ended=True, told=f"the study {told}; actions left: {left:,}").write(file.folder)
    finally:
        store.close()


def _log_to(handler: logging.Handler) -> None:
    """Send the messages of this package to a handler. Flower has its own log."""
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("dpbandits").addHandler(handler)
    logging.getLogger("dpbandits").setLevel(logging.INFO)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one driver of a study run at a time. The lock ends with the process."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidValue("driver", "a second one", "one running driver per study") from None
        yield


def _program(name: str) -> Any:
    if version("flwr") != FLOWER:
        raise InvalidValue("flwr", version("flwr"), f"{FLOWER}: another version may run code that it is sent")
    return import_module(name)


def _replace(program: Any, name: str, made: Any) -> None:
    if not hasattr(program, name):
        raise InvalidValue("flwr", f"no {name} in {program.__name__}", f"version {FLOWER}")
    setattr(program, name, made)
