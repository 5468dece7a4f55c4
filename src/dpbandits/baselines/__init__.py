"""What is not phased elimination, for comparison: learners that see every reward and protect nobody."""

from dpbandits.baselines.linucb import LinUCBTrace, linucb

__all__ = ["LinUCBTrace", "linucb"]
