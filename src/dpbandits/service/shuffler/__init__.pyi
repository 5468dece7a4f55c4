from ._app import (
    shuffler_app as shuffler_app,
)
from ._context import (
    ShufflerContext as ShufflerContext,
)
from ._shuffler import (
    Shuffler as Shuffler,
)
from ._statement import (
    statement as statement,
)
