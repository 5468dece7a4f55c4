"""The modes of a shuffler. This module imports nothing, so commands can list the modes without the extra."""

MODES = ("trusted", "split", "verified")
SHARED_MODES = ("split", "verified")  # a client sends two parts, and neither party sees its report
