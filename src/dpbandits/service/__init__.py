"""The deployed system: coordinator, shuffler, clients and actuator over a network."""
