from ._apps import (
    run_client_app as run_client_app,
    run_server_app as run_server_app,
)
from ._grid import (
    FlowerGrid as FlowerGrid,
)
from ._outcome import (
    StudyOutcome as StudyOutcome,
)
from ._processes import (
    Apps as Apps,
    Family as Family,
    require_flower as require_flower,
)
from ._server import (
    Server as Server,
)
from ._supernode import (
    SuperNode as SuperNode,
)
