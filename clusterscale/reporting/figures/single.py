"""One figure: a part of the page, a Bokeh model, or a picture."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from clusterscale.errors import InputError, PackageError
from clusterscale.reporting.figures.export import to_bytes
from clusterscale.reporting.figures.frame import plot
from clusterscale.storage import put

_MOST = 12  # pictures of a list in a notebook


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure of the page, which can also be shown or saved alone.

    Attributes
    ----------
    model
        The Bokeh figure.
    slug, title, description
        Identifier, title, and a description for screen readers.
    setting
        What it shows: the parts of the setting that vary, empty if there is only one.
    names
        Names of the series in the order of their colours, where the model itself has no names.
    """

    model: Any
    slug: str
    title: str
    description: str
    setting: str = ""
    names: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Figure({self.slug}: {self.heading})"

    @property
    def heading(self) -> str:
        """The title, after the setting if there are several."""
        return f"{self.setting} · {self.title}" if self.setting else self.title

    @property
    def html(self) -> Markup:
        """The figure as a part of a page, whose script draws it."""
        return plot(self.model, slug=self.slug, title=self.title, description=self.description)

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]] | None:
        """Return the picture for notebooks, its size and description; None without matplotlib."""
        try:
            png = to_bytes(self.model, self.heading, self.names, "png")
        except PackageError:
            return None
        # The header has the size, which is twice that on the page, for screens with small pixels.
        width, height = (int.from_bytes(png[at : at + 4]) // 2 for at in (16, 20))
        return png, {"width": width, "height": height, "alt": self.description}

    def save(self, path: str | Path) -> str:
        """Write the figure as a picture, with title and legend.

        Parameters
        ----------
        path
            Local path or fsspec URL that ends in ``.png``, ``.svg`` or ``.pdf``.

        Returns
        -------
        str
            The path.

        Raises
        ------
        InputError
            If the path has another ending.
        PackageError
            If matplotlib is not installed: ``pip install 'clusterscale[figures]'``.
        StoreError
            If the file cannot be written.
        """
        form = str(path).rpartition(".")[2]
        if form not in ("png", "svg", "pdf"):
            raise InputError(f"{path} does not end in .png, .svg or .pdf")
        put(str(path), to_bytes(self.model, self.heading, self.names, form))
        return str(path)


class Figures(list[Figure]):
    """Figures, which a notebook shows one below the other."""

    def _repr_html_(self) -> str | None:
        """Return the first pictures for notebooks; None without matplotlib."""
        parts = []
        for figure in self[:_MOST]:
            picture = figure._repr_png_()
            if picture is None:
                return None
            png, shown = picture
            looks = "".join(f' {key}="{escape(str(value))}"' for key, value in shown.items())
            parts.append(
                f'<img{looks} style="max-width: 100%; height: auto" '
                f'src="data:image/png;base64,{b64encode(png).decode()}">'
            )
        if len(self) > _MOST:
            parts.append(f"and {len(self) - _MOST:,} more")
        return "<br>".join(parts)
