"""The program that replaces `flwr-clientapp`: `python -m dpbandits.federation.flower.clientapp`."""

from dpbandits.federation.flower._apps import run_client_app

if __name__ == "__main__":
    run_client_app()
