"""Runs several commands of Flower's command line in one process, since each start takes a second.

    python -m dpbandits.federation.flower._control supernode register a.pub link ";" run app link ";"

Every command ends with `;`. Registering a key that is already registered is not an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Run each command, and return 1 if at least one failed, otherwise 0."""
    import click
    from flwr.cli.app import typer_click_object

    failed, command = 0, list[str]()
    for word in words:
        if word != ";":
            command.append(word)
            continue
        try:
            failed |= bool(typer_click_object.main(args=command, prog_name="flwr", standalone_mode=False))
        except (click.ClickException, click.exceptions.Exit) as error:
            told = error.format_message() if isinstance(error, click.ClickException) else str(error)
            print(f"flwr {' '.join(command)}: {told}")
            failed |= "already" not in told.lower()
        command = []
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
