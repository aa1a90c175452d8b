"""Statements of the papers that ours break, and why: by study and text."""

BROKEN: dict[tuple[str, str], str] = {}
