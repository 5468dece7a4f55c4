from ._ball_norm_law import (
    BallNormLaw as BallNormLaw,
    diagonal as diagonal,
)
from ._box_norm_law import BoxNormLaw as BoxNormLaw
from ._directions import directions as directions
from ._gaussian_law import GaussianLaw as GaussianLaw
from ._law import (
    CumulantLaw as CumulantLaw,
    NoiseLaw as NoiseLaw,
)
from ._laws import LAWS as LAWS
from ._ranges import (
    MOST_COORDINATES as MOST_COORDINATES,
    checked_scale as checked_scale,
)
from ._sources import (
    NoiseSource as NoiseSource,
    simulated_only as simulated_only,
)
