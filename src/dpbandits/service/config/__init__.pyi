from ._doctor import (
    Finding as Finding,
    examine as examine,
)
from ._ended import (
    EndedStudy as EndedStudy,
    ended_study as ended_study,
)
from ._options_section import (
    options_of as options_of,
    read_options as read_options,
)
from ._study_file import (
    CoordinatorFile as CoordinatorFile,
    StoredStudy as StoredStudy,
    key_pair_of as key_pair_of,
    read_shuffler as read_shuffler,
    read_stored_study as read_stored_study,
    read_study as read_study,
    storage_of as storage_of,
    study_file as study_file,
    study_of as study_of,
    terms_in as terms_in,
)
from ._toml_file import (
    TomlFile as TomlFile,
)
