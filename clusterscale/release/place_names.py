"""Names of places that do not match, and the codes that would with leading zeros."""

from __future__ import annotations

from collections.abc import Collection

from clusterscale.validation_messages import plural

_SHOWN = 3


def lost_zeros(names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Return the known code of each name that is one without its leading zeros, or with ".0"."""
    short: dict[str, list[str]] = {}
    for code in known:
        short.setdefault(code.lstrip("0") or "0", []).append(code)
    codes = {name: short.get(name.removesuffix(".0").lstrip("0") or "0", []) for name in names}
    return {
        name: code[0]
        for name, code in codes.items()
        if len(code) == 1 and name not in known and len(name.removesuffix(".0")) <= len(code[0])
    }


def describe_mismatch(names: Collection[str], known: Collection[str], where: str) -> str:
    """Return which names do not match those that ``where`` has, and a remedy."""
    unknown, missing = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    padded = lost_zeros(unknown, known)
    if padded:
        unknown = sorted(padded)
        missing = [padded[name] for name in unknown]
    text = f"{', '.join(unknown[:_SHOWN])} {'is' if len(unknown) == 1 else 'are'} not named in "
    if not unknown:
        text = f"{plural(len(missing), 'place')} of "
    text += f"{where}, which has {', '.join(missing[:_SHOWN])}" if unknown else (
        f"{where} have no row, such as {missing[0]}"
    )  # fmt: skip
    if padded:
        width = {len(code) for code in padded.values()}
        digits = f" to {width.pop()} digits" if len(width) == 1 else ""
        return f"{text}: pad the codes with leading zeros{digits}"
    return f"{text}: places are matched by name, and only rows without names go by their position"
