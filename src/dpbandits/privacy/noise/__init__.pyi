from ._laws import (
    LAWS as LAWS,
    BoxNormLaw as BoxNormLaw,
    CumulantLaw as CumulantLaw,
    GaussianLaw as GaussianLaw,
    NoiseLaw as NoiseLaw,
)
from ._ranges import (
    MOST_COORDINATES as MOST_COORDINATES,
    checked_scale as checked_scale,
)
from ._sources import (
    NoiseSource as NoiseSource,
    simulated_only as simulated_only,
)
