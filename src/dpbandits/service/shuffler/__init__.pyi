from ._app import (
    shuffler_app as shuffler_app,
)
from ._shuffler import (
    Shuffler as Shuffler,
    ShufflerContext as ShufflerContext,
)
from ._statement import (
    statement as statement,
)
