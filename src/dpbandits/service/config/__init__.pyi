from ._doctor import (
    Finding as Finding,
    examine as examine,
)
from ._ended import (
    EndedStudy as EndedStudy,
    ended_study as ended_study,
)
from ._options_section import (
    read_options as read_options,
)
from ._study_file import (
    CoordinatorFile as CoordinatorFile,
    StoredStudy as StoredStudy,
    read_shuffler as read_shuffler,
    read_stored_study as read_stored_study,
    read_study as read_study,
    study_of as study_of,
)
from ._toml_file import (
    TomlFile as TomlFile,
)
