"""What is not phased elimination, for comparison: LinUCB, which protects nobody, and its private kin."""

from dpbandits.baselines.linucb import LinUCBTrace, linucb
from dpbandits.baselines.private_linucb import Peer, PrivateLinUCBTrace, private_linucb

__all__ = ["LinUCBTrace", "Peer", "PrivateLinUCBTrace", "linucb", "private_linucb"]
