from ._choose import (
    answer as answer,
    choose as choose,
)
from ._found import (
    Found as Found,
)
from ._people import (
    People as People,
    Ran as Ran,
    people_of as people_of,
)
from ._planning import (
    planned as planned,
)
from ._replay import (
    Replay as Replay,
)
from ._session import (
    Session as Session,
    session as session,
)
from ._session_task import (
    SessionTask as SessionTask,
)
