from ._app import (
    coordinator_app as coordinator_app,
)
from ._context import (
    Beginning as Beginning,
    Context as Context,
)
from ._coordinator import (
    Coordinator as Coordinator,
)
from ._history import (
    StudyHistory as StudyHistory,
    read_history as read_history,
)
from ._http_link import (
    HttpLink as HttpLink,
)
from ._pace import (
    poll_interval as poll_interval,
)
from ._results import (
    LEVEL as LEVEL,
    Answered as Answered,
    Journalled as Journalled,
    results_reply as results_reply,
    stored_results as stored_results,
)
from ._watermark import (
    WatchedStore as WatchedStore,
    Watermark as Watermark,
)
