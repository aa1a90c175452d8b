"""YAML into what is to be done: a run, or a catalogue of releases."""

from clusterscale.config.reading import (
    QUICKSTART,
    built_in,
    load,
    load_releases,
    parse,
    parse_releases,
    schema,
)
from clusterscale.config.releases import ReleasesConfig, Webhook
from clusterscale.config.run import Config, CubeSource

__all__ = [
    "QUICKSTART",
    "Config",
    "CubeSource",
    "ReleasesConfig",
    "Webhook",
    "built_in",
    "load",
    "load_releases",
    "parse",
    "parse_releases",
    "schema",
]
