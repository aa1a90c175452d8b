"""Extension of griffe: the reStructuredText of docstrings as Markdown."""

import re

from griffe import Extension

ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
RULE = re.compile(r"^=+(?: +=+)+$")


class Docstrings(Extension):
    """Converts roles, simple tables, literal blocks and examples."""

    def on_object(self, *, obj, **_):
        """Convert the docstring of an object when it has been read."""
        if obj.docstring:
            obj.docstring.value = convert(obj.docstring.value)


def convert(text):
    """Return a docstring with Markdown in place of the reStructuredText that the package uses."""
    text = ROLE.sub(r"`\1`", text)
    text = re.sub(r"(\S)::$", r"\1:", text, flags=re.MULTILINE)
    blocks = [table(block) for block in text.split("\n\n")]
    if "Examples\n---" not in text:  # griffe itself finds the examples of such a section
        blocks = [
            f"```pycon\n{block}\n```" if block.startswith(">>> ") else block for block in blocks
        ]
    return "\n\n".join(blocks)


def table(block):
    """Return a simple table as a Markdown table, any other paragraph as it is."""
    lines = block.strip("\n").splitlines()
    if not lines or not RULE.match(lines[0].strip()):
        return block
    starts = [found.start() for found in re.finditer("=+", lines[0])]
    ends = [*starts[1:], None]
    rows = []
    for line in lines[1:]:
        if RULE.match(line.strip()):
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if rows and not cells[0]:  # the cells of this line continue those above
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    rows.insert(1, ["---"] * len(starts))
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows
    )
