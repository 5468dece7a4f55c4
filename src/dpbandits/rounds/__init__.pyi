from ._carrier import (
    Collector as Collector,
    Custody as Custody,
)
from ._clock import (
    Clock as Clock,
    Deadlines as Deadlines,
    SteadyClock as SteadyClock,
    StoreClock as StoreClock,
)
from ._groups import (
    Group as Group,
    GroupRounds as GroupRounds,
)
from ._in_process import (
    run_in_process as run_in_process,
)
from ._journal import (
    JournalRecords as JournalRecords,
)
from ._machine import (
    check_study as check_study,
    stops as stops,
)
from ._orders import (
    CLOSED as CLOSED,
    PAUSED as PAUSED,
    RUNNING as RUNNING,
    give_order as give_order,
    standing_of as standing_of,
)
from ._participation import (
    check_accepted as check_accepted,
    count_rounds as count_rounds,
    take_places as take_places,
)
from ._rounds import (
    Rounds as Rounds,
)
from ._transactions import (
    Hook as Hook,
)
