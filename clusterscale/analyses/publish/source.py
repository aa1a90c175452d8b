"""Numbers for real releases: from the operating system's cryptographic source, noise by OpenDP."""

import math
import os
from functools import lru_cache
from typing import Any, Literal, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Noise
from clusterscale.cube.blocks import Source
from clusterscale.errors import ConfigError, PackageError
from clusterscale.mechanisms.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise

INSTALL_OPENDP = "pip install 'clusterscale[publish]'"
"""The command that installs OpenDP."""

_LARGEST_SCALE = 2.0**48  # noise of 30 scales is exact as a float


class SecretNumbers:
    """Numbers that cannot be drawn again: uniform ones, and whole noise.

    It takes the place of a :class:`numpy.random.Generator` where a mechanism releases. Uniform
    numbers are multiples of 2⁻⁵³ made of the bytes of :func:`os.urandom`. Noise is drawn by OpenDP,
    whose samplers are exact and use the same source (Canonne, Kamath and Steinke, NeurIPS 2020).
    Anything else that a mechanism asks for is refused.
    """

    def random(self, size: int | tuple[int, ...] | None = None) -> Any:
        """Return uniform numbers from 0, below 1, float64, of shape ``size``; one if it is None."""
        n = 1 if size is None else math.prod(np.atleast_1d(size).tolist())
        bits = np.frombuffer(os.urandom(8 * n), "<u8") >> np.uint64(11)
        values = np.asarray(bits * 2.0**-53, np.float64)
        return float(values[0]) if size is None else values.reshape(size)

    def draw(self, noise: Noise, n: int) -> NDArray[Any]:
        """Return ``n`` independent values of whole noise, int64, shape (n,).

        Raises
        ------
        ConfigError
            If the noise is continuous, its scale is not known, or too large.
        PackageError
            If OpenDP is not installed.
        """
        if not isinstance(noise, DiscreteLaplaceNoise | DiscreteGaussianNoise):
            raise ConfigError(f"{type(noise).__name__} is not drawn for a real release")
        if not 0 < noise.scale <= _LARGEST_SCALE:
            raise ConfigError(f"noise of scale {noise.scale:g} is not drawn for a real release")
        # One step up, so that rounding of the quotient never makes noise smaller than stated.
        law = "laplace" if isinstance(noise, DiscreteLaplaceNoise) else "gaussian"
        measurement = _measurement(law, math.nextafter(noise.scale, math.inf))
        return np.array(measurement([0] * n), np.int64)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ConfigError(
            f"a mechanism draws numbers by {name!r}, which is not done for a real release: only "
            "uniform numbers and whole noise are"
        )


def secret_numbers() -> np.random.Generator:
    """Return :class:`SecretNumbers` as what a mechanism calls its generator."""
    return cast("np.random.Generator", SecretNumbers())


class OperatingSystemSource(Source):
    """A cube whose trace steps draw from the operating system's source, and from no seed."""

    __slots__ = ()

    def stream(self, *path: str | int) -> np.random.Generator:
        """Return secret numbers, whatever the purpose."""
        return secret_numbers()


def require_opendp() -> Any:
    """Return OpenDP.

    Raises
    ------
    PackageError
        If it is not installed; names the extra.
    """
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise PackageError(
            f"noise of real releases is drawn by OpenDP, which cannot be imported ({error}): "
            f"{INSTALL_OPENDP}"
        ) from None
    return dp


@lru_cache(maxsize=4)
def _measurement(law: Literal["laplace", "gaussian"], scale: float) -> Any:
    dp = require_opendp()
    dp.enable_features("contrib")
    distance, make = {
        "laplace": (dp.l1_distance, dp.m.make_laplace),
        "gaussian": (dp.l2_distance, dp.m.make_gaussian),
    }[law]
    return make(dp.vector_domain(dp.atom_domain(T="i64")), distance(T="i64"), scale=scale)
