from ._linucb import LinUCBTrace as LinUCBTrace, linucb as linucb
from ._private_linucb import (
    Peer as Peer,
    PrivateLinUCBTrace as PrivateLinUCBTrace,
    private_linucb as private_linucb,
)
