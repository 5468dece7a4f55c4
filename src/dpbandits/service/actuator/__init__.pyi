from ._actuator import (
    Actuator as Actuator,
    play_all as play_all,
)
