"""The program that replaces `flwr-clientapp`: `python -m dpbandits.federation.flower._clientapp`."""

from dpbandits.federation.flower._apps import run_client_app

if __name__ == "__main__":
    run_client_app()
