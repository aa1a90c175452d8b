"""Hooks of mkdocs: pages that are generated or lie elsewhere, and a check for remote resources.

A page of ``nav`` that does not exist is left out, and so are links to it.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from clusterscale.attacks import ATTACKS
from clusterscale.cli.guide import read_page, written
from clusterscale.cli.reference import GENERATED
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.utility import UTILITIES

ROOT = Path(__file__).parents[2]
REPOSITORY = os.environ.get("GITHUB_REPOSITORY")  # owner/name; links need it, builds do not
INCLUDED = {  # page: file of the repository
    "changelog": ".github/CHANGELOG.md",
    "contributing": ".github/CONTRIBUTING.md",
    "deployment": "deploy/README.md",
    "examples": "configs/README.md",
    "security": ".github/SECURITY.md",
}
PACKAGES = (
    "analyses.audit", "analyses.recovery", "analyses.screening", "analyses.traits", "attacks",
    "config", "contracts", "cube", "errors", "groups", "ingestion", "mechanisms", "metrics",
    "priors", "reauditing", "release.checks", "reporting", "runtime", "study", "testing", "utility",
)  # fmt: skip
REGISTRIES = {
    "attacks": ATTACKS,
    "mechanisms": MECHANISMS,
    "priors": PRIORS,
    "utility": UTILITIES,
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", re.DOTALL)
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon)[^>]*href=["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//"""
)


def on_files(files, config):
    """Add the pages that are not written in the folder of the guide."""
    pages = {name: make() for name, make in GENERATED.items()}
    pages |= {name: included(path) for name, path in INCLUDED.items()}
    pages |= {f"api-{name}": api(name) for name in PACKAGES}
    pages |= {name: notebook(name) for name, path in written().items() if path.suffix == ".ipynb"}
    pages["api"] = overview()
    for name, text in pages.items():
        files.append(File.generated(config, f"{name}.md", content=text))
    style = (Path(__file__).parent / "site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "site.css", content=style))
    config.nav = existing(config.nav, {file.src_uri for file in files})
    place = next(part["Reference"] for part in config.nav if "Reference" in part)
    place[-1] = {"Classes and functions": ["api.md", *(f"api-{name}.md" for name in PACKAGES)]}
    return files


def existing(nav, known):
    """Return a part of the navigation without the pages that do not exist."""
    parts = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            parts.append({title: existing(target, known)})
        elif target in known:
            parts.append(entry)
    return parts


def api(name):
    """Return a page with the public names of a package, and with the classes of its registry."""
    parts = [f"# clusterscale.{name}", f"::: clusterscale.{name}"]
    for key in REGISTRIES.get(name, ()):
        cls = REGISTRIES[name][key]
        parts += [f"## `{key}`", f"::: {cls.__module__}.{cls.__qualname__}"]
    return "\n\n".join(parts) + "\n"


def notebook(name):
    """Return a notebook as a page, with a link to the file."""
    title, _, rest = read_page(name).partition("\n")
    return f"{title}\n\n[Download the notebook]({name}.ipynb)\n{rest}"


def overview():
    """Return the page of the names that ``import clusterscale`` offers, and links to packages."""
    rows = "\n".join(f"- [clusterscale.{name}](api-{name}.md)" for name in PACKAGES)
    head = "# clusterscale\n\nThe names of `import clusterscale`; packages have pages of their own:"
    return f"{head}\n\n{rows}\n\n::: clusterscale\n"


def included(path):
    """Return a Markdown file of the repository, with links that hold on the site."""
    folder = posixpath.dirname(path)
    pages = {target: f"{name}.md" for name, target in INCLUDED.items()}

    def link(found):
        text, target = found[1], found[2]
        if "://" in target or target.startswith("#"):
            return found[0]
        file, hash_, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(folder, file))
        if file in pages:
            return f"[{text}]({pages[file]}{hash_}{anchor})"
        return f"[{text}](https://github.com/{REPOSITORY}/blob/main/{file})" if REPOSITORY else text

    text = LINK.sub(link, (ROOT / path).read_text(encoding="utf-8"))
    return re.sub(r"```mermaid\n.*?```\n", "", text, flags=re.DOTALL)


def on_page_markdown(markdown, page, config, files):
    """Leave out links to pages of the navigation that are not part of this build."""
    absent = (
        name for name in ("python.md", "plug-ins.md") if files.get_file_from_path(name) is None
    )
    for name in absent:
        markdown = re.sub(rf"\[([^\]]+)\]\({re.escape(name)}[^)]*\)", r"\1", markdown)
    return markdown


def on_post_build(config):
    """Fail if a page loads anything from another server."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8")
            if found := LOADED.search(text):
                raise PluginError(f"{path.name} loads {text[found.start() : found.end() + 60]!r}")
