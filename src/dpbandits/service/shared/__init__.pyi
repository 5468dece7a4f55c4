from ._common_endpoints import (
    ATTEMPT as ATTEMPT,
    Served as Served,
    party_app as party_app,
    report_endpoint as report_endpoint,
)
from ._connections import (
    PROVEN as PROVEN,
    StepTimes as StepTimes,
)
from ._dialogue import (
    Backoff as Backoff,
    Dialogue as Dialogue,
    call as call,
    send as send,
)
from ._endpoint import (
    Call as Call,
    Endpoint as Endpoint,
    endpoint as endpoint,
)
from ._logs import (
    configure_logs as configure_logs,
)
from ._metrics import (
    Metrics as Metrics,
)
from ._process_limits import (
    most_connections as most_connections,
)
from ._rates import (
    Rates as Rates,
)
from ._serving import (
    Listening as Listening,
    serve as serve,
    server_for as server_for,
)
from ._settings import (
    Limits as Limits,
    RoleTokens as RoleTokens,
    ShufflerAddress as ShufflerAddress,
    Timing as Timing,
)
from ._tls import (
    LOOPBACK as LOOPBACK,
    self_signed as self_signed,
)
from ._transport import (
    AsyncTransport as AsyncTransport,
    Transport as Transport,
)
from ._writer import (
    Writer as Writer,
)
