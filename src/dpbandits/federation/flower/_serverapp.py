"""The program that replaces `flwr-serverapp`: `python -m dpbandits.federation.flower._serverapp`."""

from dpbandits.federation.flower._apps import run_server_app

if __name__ == "__main__":
    run_server_app()
