"""Registration of the built-in trust models, in the order in which commands list them."""

from dpbandits.privacy._trust_model import register_trust
from dpbandits.privacy.trust._central import CENTRAL
from dpbandits.privacy.trust._local import LOCAL
from dpbandits.privacy.trust._none import NONE
from dpbandits.privacy.trust._shuffle import SHUFFLE

for model in (NONE, CENTRAL, LOCAL, SHUFFLE):
    register_trust(model)
