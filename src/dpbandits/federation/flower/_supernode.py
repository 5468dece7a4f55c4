"""`SuperNode`: runs the Flower processes of a site until it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable

from dpbandits.federation._site_file import SiteFile
from dpbandits.federation.flower._processes import Apps, Family, prepared, program, secret_file


class SuperNode:
    """The processes of a site.

    A SuperNode polls the SuperLink, and a SuperExec starts a process for each answer. The site only makes
    outgoing connections. Its own port listens on loopback, for these two processes.

    Args:
        file: The site's file.
        apps: The modules that run instead of Flower's programs; only a test passes others.

    Raises:
        Refused: The terms are outside the site's consent.
        InvalidValue: The ledger or the data cannot be opened.
    """

    def __init__(self, file: SiteFile, apps: Apps | None = None) -> None:
        file.site()  # fails now rather than at the first request
        self.file = file
        self.family = Family(file.folder, prepared(file.folder, file.path, apps or Apps()))

    def start(self) -> None:
        """Start the processes."""
        file, secret = self.file, str(secret_file(self.file.folder))
        node = [
            program("flower-supernode"),
            *("--superlink", file.address, "--root-certificates", str(file.authority)),
            *("--auth-supernode-private-key", str(file.key)),
            *("--host", "127.0.0.1", "--port", str(file.port)),
            *("--isolation", "process", "--superexec-auth-secret-file", secret),
        ]
        runtime = ["--runtime-api-address", f"127.0.0.1:{file.port}", "--insecure"]
        self.family.start("supernode", node)
        secrets = ["--superexec-auth-secret-file", secret]
        self.family.start("superexec", [program("flower-superexec"), *runtime, *secrets])

    def run(self, watch: Callable[[SuperNode], None] = lambda _node: None) -> None:
        """Start the processes, and restart those that end, until this process is interrupted.

        Args:
            watch: Called once per second with this object; tests pass a function.
        """
        try:
            self.start()
            while True:
                self.family.revive()
                watch(self)
                time.sleep(1)
        finally:
            self.family.stop()
