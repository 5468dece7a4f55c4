"""Learn the action that is best for a whole population, without learning about any one of its members."""
