from ._game import (
    CONFIDENCE as CONFIDENCE,
    SAMPLES as SAMPLES,
    reveal as reveal,
)
