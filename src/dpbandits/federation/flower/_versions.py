"""Names that the processes of a federation share, without an import of anything else."""

FLOWER = "1.41.0"
"""The version of Flower whose programs are replaced. Another one may load an app in another way."""

FILE = "DPBANDITS_FEDERATION_FILE"
"""The environment variable with the path of the study file, or of the site's file."""
