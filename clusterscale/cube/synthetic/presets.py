"""Sizes of the papers' four data sets, and how unpublished values were inferred.

``tfl`` is published: PETS17 §4.1, and NDSS18 §V-A with the null ROI (728 ± 16 = events + idle
hours; 20 ± 9 unique). Both papers also state 6 M trips of 10,000 users, which contradicts their own
171 events per user; 171 is used, because it is consistent with the 728 and the 115.

``sfc`` is published, with small differences between the papers (3,663 ± 1,116 events without, 3,827
± 1,069 with the null ROI; 77 to 78 ± 6 unique ROIs; 340 ± 94 active hours); the numbers here are
those of the public cabspotting traces in the papers' box, without the null ROI.

``cdr`` has published users, ROIs and epochs, at least one visit a week, and a lognormal activity
that an exponential distribution fits nearly as well (POPETS24 §5.1, Fig. 6). Inferred: 130 visits
per user, since then 99 % of the nonzero counts of 1,000 users are at most 5 (§6.1, Fig. 15), given
ROIs whose popularities have a log-sd of 1 and decrease from the centre; a standard deviation
similar to the mean, as for an exponential distribution. The paper gives neither the city, nor its
time zone, nor the number of ROIs per user.

``milan`` has published users, ROIs and epochs. Inferred: targets, who tweet at least 10 times,
have a sixth of the visits of those of ``cdr`` (§6.1, Fig. 14), about 21; a lognormal distribution
with a log-sd of 1.28 whose upper part has that mean gives 6.3 visits over all users; and again at
least 99 % of the nonzero counts of 1,000 users are at most 5. The paper gives no dates; the start
is the first Monday of November 2013, when the data of the challenge begin.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from clusterscale import seeds
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.store import TraceCube
from clusterscale.cube.synthetic.cabs import Cabs
from clusterscale.cube.synthetic.commuters import Commuters
from clusterscale.cube.synthetic.phones import Phones, ReportingActivity, antennas, squares
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ExistsError, InputError, UnknownNameError
from clusterscale.storage import exists
from clusterscale.validation_messages import choices, quote

_MOST_EVENTS = 10**11  # more would take weeks


@dataclass(frozen=True, slots=True)
class Preset:
    """A data set: its size, its calendar and the mean number of its events.

    Attributes
    ----------
    users, rois, epochs
        Size of the original; ROIs without the null ROI, epochs of one hour.
    start, timezone
        Local time at which epoch 0 begins, and its zone.
    events
        Events per user on average, without the null ROI.
    """

    users: int
    rois: int
    epochs: int
    start: str
    timezone: str
    events: float


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "tfl": Preset(10_000, 582, 672, "2010-03-01T00:00", "Europe/London", 171.0),
        "sfc": Preset(534, 100, 504, "2008-05-19T00:00", "America/Los_Angeles", 3770.0),
        "cdr": Preset(11_000, 500, 720, "2021-06-01T00:00", "America/Bogota", 130.0),
        "milan": Preset(4_840, 100, 168, "2013-11-04T00:00", "Europe/Rome", 6.3),
    }
)


_POPULATIONS: Mapping[str, Callable[[Preset], Cabs | Commuters | Phones]] = {
    "tfl": lambda preset: Commuters("tfl", preset.rois, preset.epochs),
    "sfc": lambda preset: Cabs(preset.epochs),
    # Epoch 0 is a Tuesday. No user skips a week: the month has 9 parts (a target of the paper has
    # 9 visits), and every week contains a whole part.
    "cdr": lambda preset: Phones(
        "cdr", antennas(preset.rois), preset.epochs, 144, ReportingActivity(96.0, 0.9, 9, 4096, 36)
    ),
    "milan": lambda preset: Phones(
        "milan", squares(), preset.epochs, 0, ReportingActivity(2.9, 1.28, 1, 1024, 1)
    ),
}


def synthesise(
    preset: str, uri: str, *, users: int | None = None, seed: int = 0, force: bool = False
) -> TraceCube:
    """Write a cube of synthetic users that match the statistics of a paper's data set.

    Parameters
    ----------
    preset
        ``tfl``, ``sfc``, ``cdr`` or ``milan``; see :data:`PRESETS`.
    uri
        Where to write: a local path or an fsspec URL.
    users
        Number of users; as in the paper if None. They are drawn and written in blocks, so that
        memory does not grow with their number.
    seed
        Root seed. The first users are the same for any number of users.
    force
        Overwrite what is stored at ``uri``.

    Returns
    -------
    TraceCube
        The finished cube.

    Raises
    ------
    UnknownNameError
        If there is no such preset.
    InputError
        If ``users`` is below 1, or so large that the cube would take weeks to write.
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set.
    """
    if preset not in PRESETS:
        raise UnknownNameError(
            f"unknown preset {quote(preset)}: {choices(preset, sorted(PRESETS))}"
        )
    n_users = PRESETS[preset].users if users is None else users
    if n_users < 1:
        raise InputError(f"users is {n_users}: a cube has at least 1")
    if (n_events := n_users * PRESETS[preset].events) > _MOST_EVENTS:
        raise InputError(
            f"users is {quote(n_users)}: they have about {n_events:.2g} events; a synthetic cube "
            f"has at most {_MOST_EVENTS:.0e}"
        )
    return write_like(preset, replace(PRESETS[preset], users=n_users), uri, seed=seed, force=force)


def open_or_synthesise(
    preset: str, uri: str, *, users: int | None = None, seed: int = 0
) -> TraceCube:
    """Open the cube of a preset, written first by :func:`synthesise` if it is not there yet.

    With ``users`` None, any number of users is accepted. Raises ExistsError if another cube is
    at ``uri``, FormatError or DamagedError if the cube there cannot be used, and the errors of
    :func:`synthesise`.
    """
    if not exists(uri):
        return synthesise(preset, uri, users=users, seed=seed)
    cube = TraceCube(uri)
    provenance = cube.attributes["provenance"]
    same = provenance.get("preset") == preset and provenance.get("seed") == seed
    if not same or (users is not None and cube.n_users != users):
        raise ExistsError(
            f"{uri} contains a cube other than {preset} with {users or 'all'} users and "
            f"seed {seed}: choose another path"
        )
    return cube


def write_like(
    preset: str, what: Preset, uri: str, *, seed: int = 0, force: bool = False
) -> TraceCube:
    """Write a cube of users like those of a preset, with the size and calendar of ``what``.

    Parameters and errors are those of :func:`synthesise`; presets on a grid keep their ROIs.
    """
    n_users = what.users
    calendar = Calendar.parse(what.start, "1h", what.epochs, what.timezone)
    population = _POPULATIONS[preset](what)
    provenance: dict[str, Any] = {"source": "synthetic", "preset": preset, "seed": seed}
    with new_cube(
        uri,
        population.regions,
        calendar,
        provenance=provenance,
        pseudonyms=True,
        public=("calendar", "places"),
        force=force,
    ) as writer:
        for index, first in enumerate(range(0, n_users, population.block)):
            size = min(population.block, n_users - first)
            sizes, cells = population.draw(seeds.stream(seed, "synthetic", preset, index), size)
            writer.append([f"u{i:07d}" for i in range(first, first + size)], sizes, cells)
    return TraceCube(uri)
