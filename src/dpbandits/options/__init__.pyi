from ._effects import (
    Effect as Effect,
)
from ._encoding import (
    Encoding as Encoding,
)
from ._feature import (
    Feature as Feature,
)
from ._kernel import (
    Kernel as Kernel,
)
from ._kinds import (
    Category as Category,
    Kind as Kind,
    Number as Number,
    Ordered as Ordered,
)
from ._options import (
    Options as Options,
    name_of as name_of,
)
from ._tables import (
    read_columns as read_columns,
)
