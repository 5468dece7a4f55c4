from ._agent import (
    Recorder as Recorder,
    take_part as take_part,
)
from ._client import (
    AsyncClient as AsyncClient,
    ClientCore as ClientCore,
)
from ._consent import (
    Consent as Consent,
)
from ._memory_file import (
    MemoryFile as MemoryFile,
    MemoryFolder as MemoryFolder,
)
