"""The protocol of utility measures."""

from typing import ClassVar, Literal, Protocol, runtime_checkable

from numpy.typing import ArrayLike

__all__ = ["MeasureKind", "Utility"]

MeasureKind = Literal["", "relative", "total"]


@runtime_checkable
class Utility(Protocol):
    """A measure of the utility of a release, compared with the raw counts.

    A class that has ``events_only = True`` compares visits only: in an audit with a null ROI it is
    given all other ROIs.

    Attributes
    ----------
    ideal
        The value when the release equals the raw counts.
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
