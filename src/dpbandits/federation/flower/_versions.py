"""Constants that the processes of a federation share. This module imports nothing."""

FLOWER = "1.41.0"
"""The version of Flower whose programs are replaced. Other versions may load apps in another way."""

FILE = "DPBANDITS_FEDERATION_FILE"
"""The environment variable with the path of the study file, or of the site's file."""
