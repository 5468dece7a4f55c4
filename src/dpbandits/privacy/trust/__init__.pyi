from ._central import (
    CentralGaussian as CentralGaussian,
    CentralLattice as CentralLattice,
)
from ._local import (
    LocalGaussian as LocalGaussian,
    LocalLattice as LocalLattice,
)
from ._none import (
    NoPrivacy as NoPrivacy,
)
from ._shuffle import (
    ShuffledBits as ShuffledBits,
    SummedShares as SummedShares,
    noisy_reports as noisy_reports,
)
