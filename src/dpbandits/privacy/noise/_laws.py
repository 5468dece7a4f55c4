"""The integer noise distributions by name.

discrete-gaussian   P(z) ∝ exp(−z²/(2·scale²))               sub-Gaussian with proxy scale²
skellam             the difference of two Poisson(scale²/2)   variance scale²
laplace             P(z) ∝ exp(−|z|/scale)                   pure
polya               `shares` such shares sum to laplace       pure
k-norm              P(z) ∝ exp(−‖z‖∞/scale) on Z^s           pure, jointly over the coordinates
ball-norm           density ∝ exp(−‖y‖₂/scale), rounded       pure, jointly over the coordinates
"""

from __future__ import annotations

from dpbandits.privacy.noise._ball_norm_law import BallNormLaw
from dpbandits.privacy.noise._box_norm_law import BoxNormLaw
from dpbandits.privacy.noise._gaussian_law import GaussianLaw
from dpbandits.privacy.noise._laplace_laws import LaplaceLaw, PolyaLaw
from dpbandits.privacy.noise._law import NoiseLaw
from dpbandits.privacy.noise._skellam_law import SkellamLaw

LAWS: dict[str, type[NoiseLaw]] = {
    "discrete-gaussian": GaussianLaw,
    "skellam": SkellamLaw,
    "laplace": LaplaceLaw,
    "polya": PolyaLaw,
    "k-norm": BoxNormLaw,
    "ball-norm": BallNormLaw,
}
