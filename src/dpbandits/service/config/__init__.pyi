from ._study_file import (
    read_shuffler as read_shuffler,
    read_study as read_study,
    study_of as study_of,
)
from ._toml_file import (
    TomlFile as TomlFile,
)
