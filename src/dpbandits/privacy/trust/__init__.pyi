from ._band import LocalBand as LocalBand
from ._central import (
    CentralGaussian as CentralGaussian,
    CentralLattice as CentralLattice,
)
from ._direction_list import LocalList as LocalList
from ._local import (
    LocalGaussian as LocalGaussian,
    LocalLattice as LocalLattice,
)
from ._none import (
    NoPrivacy as NoPrivacy,
)
from ._server_noise import ServerNoise as ServerNoise
from ._shuffled_bits import ShuffledBits as ShuffledBits
from ._summed_shares import SummedShares as SummedShares
