"""What every measure of utility looks like to others."""

from typing import ClassVar, Protocol, runtime_checkable

from numpy.typing import ArrayLike

__all__ = ["Utility"]


@runtime_checkable
class Utility(Protocol):
    """Says how much of the raw counts a release still tells.

    A class that has ``events_only = True`` compares visits only: in an audit with a null ROI, which
    counts who is nowhere, it is given the other ROIs.

    Attributes
    ----------
    ideal
        The value when the release equals the raw counts, whatever these are.
    title
        Name for people, in tables and figures.
    """

    ideal: ClassVar[float]
    title: ClassVar[str]

    @property
    def name(self) -> str:
        """Key in the registry: the name of the function that computes it."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Compare raw counts and published values, both of shape (roi, epoch).

        NaN where raw has nothing to measure, such as no counts at all.
        """
