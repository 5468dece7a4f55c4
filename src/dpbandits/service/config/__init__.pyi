from ._doctor import (
    examine as examine,
)
from ._ended import (
    ended_study as ended_study,
)
from ._options_section import (
    OPTIONS_KEYS as OPTIONS_KEYS,
    options_of as options_of,
    read_options as read_options,
)
from ._party_files import (
    CoordinatorFile as CoordinatorFile,
    read_shuffler as read_shuffler,
    read_study as read_study,
    terms_in as terms_in,
)
from ._party_sections import (
    key_pair_of as key_pair_of,
    storage_of as storage_of,
)
from ._sections import (
    require_cohorts as require_cohorts,
    study_file as study_file,
)
from ._stored_study import (
    StoredStudy as StoredStudy,
    read_stored_study as read_stored_study,
)
from ._study_section import (
    study_of as study_of,
)
from ._toml_file import (
    TomlFile as TomlFile,
)
