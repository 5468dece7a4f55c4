from ._derivation import (
    NONCE_SIZE as NONCE_SIZE,
    VERIFY_KEY_SIZE as VERIFY_KEY_SIZE,
)
from ._instances import (
    best_chunk as best_chunk,
    sum_vec_in_ball as sum_vec_in_ball,
    sum_vec_with_multiproof as sum_vec_with_multiproof,
)
from ._prio3 import (
    HELPER as HELPER,
    LEADER as LEADER,
    Prio3 as Prio3,
)
from ._sharding import (
    Shares as Shares,
)
from ._verification import (
    OutShares as OutShares,
    Prepared as Prepared,
)
