"""Near-G-optimal designs in the span of the active actions, with a certificate."""
