"""What every measure of utility looks like to others."""

from typing import ClassVar, Literal, Protocol, runtime_checkable

from numpy.typing import ArrayLike

__all__ = ["MeasureKind", "Utility"]

MeasureKind = Literal["", "relative", "total"]


@runtime_checkable
class Utility(Protocol):
    """Says how much of the raw counts a release still tells.

    A class that has ``events_only = True`` compares visits only: in an audit with a null ROI, which
    counts who is nowhere, it is given the other ROIs.

    Attributes
    ----------
    ideal
        The value when the release equals the raw counts, whatever these are.
    kind
        ``relative`` to the counts, so that a loss can exceed 1; the share of the ``total`` that is
        kept; or empty.
    """

    ideal: ClassVar[float]
    kind: ClassVar[MeasureKind]

    @property
    def name(self) -> str:
        """Key in the registry: the name of the function that computes it."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    @property
    def heading(self) -> str:
        """Title, or the measure in words, for tables and figures."""

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Compare raw counts and published values, both of shape (roi, epoch).

        NaN where raw has nothing to measure, such as no counts at all.
        """
