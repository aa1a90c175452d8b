"""Codes of the cells of the European grid of INSPIRE, long and short."""

from __future__ import annotations

import re

from clusterscale.errors import InputError

INSPIRE_SIZES = (100, 200, 250, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
"""Widths of cells in metres."""

_CODE = re.compile(
    r"(?:[A-Z]{2}_)?(?:CRS3035RES(?P<metres>\d{1,6})m|(?P<size>\d{1,3})(?P<unit>k?m))"
    r"N(?P<north>\d{1,7})E(?P<east>\d{1,7})",
    re.ASCII,
)


def inspire_code(code: str) -> str:
    """Return the code of an INSPIRE cell in its long form.

    Parameters
    ----------
    code
        A long or a short code, such as ``1kmN2689E4337``, which may follow a country and ``_``.

    Returns
    -------
    str
        The long code without a country, such as ``CRS3035RES1000mN2689000E4337000``.

    Raises
    ------
    InputError
        If it is no such code.
    """
    if found := _CODE.fullmatch(code):
        north, east = int(found["north"]), int(found["east"])
        if found["metres"]:
            metres, unit = int(found["metres"]), 1
        else:
            metres = int(found["size"]) * (1000 if found["unit"] == "km" else 1)
            # Short codes leave out as many digits as the width has zeros at its end.
            unit = 10 ** (len(str(metres)) - len(str(metres).rstrip("0")))
        if metres in INSPIRE_SIZES and north * unit % metres == 0 == east * unit % metres:
            return inspire_name(metres, north * unit, east * unit)
    raise InputError(
        f"{code!r} is not the code of an INSPIRE cell, such as CRS3035RES1000mN2689000E4337000 or "
        "1kmN2689E4337"
    )


def inspire_name(metres: int, north: int, east: int) -> str:
    """Return the long code of a cell, by its width and its south-west corner in metres."""
    return f"CRS3035RES{metres}mN{north}E{east}"
