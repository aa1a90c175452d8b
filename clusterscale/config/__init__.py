"""Read YAML configs of a run, a catalogue of releases, or a study of a paper."""

from clusterscale.config.reading import (
    QUICKSTART,
    built_in,
    load,
    load_either,
    load_gate,
    load_policy,
    load_publication,
    load_releases,
    parse,
    parse_entry,
    schema,
)
from clusterscale.config.releases import ReleasesConfig
from clusterscale.config.run import Config
from clusterscale.config.studies import find_studies, load_study
