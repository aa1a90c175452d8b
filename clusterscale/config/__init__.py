"""Read YAML configs of a run, a catalogue of releases, or a study of a paper."""

from clusterscale.config.reading import QUICKSTART as QUICKSTART
from clusterscale.config.reading import built_in as built_in
from clusterscale.config.reading import load as load
from clusterscale.config.reading import load_either as load_either
from clusterscale.config.reading import load_gate as load_gate
from clusterscale.config.reading import load_policy as load_policy
from clusterscale.config.reading import load_publication as load_publication
from clusterscale.config.reading import load_releases as load_releases
from clusterscale.config.reading import parse as parse
from clusterscale.config.reading import parse_entry as parse_entry
from clusterscale.config.reading import schema as schema
from clusterscale.config.releases import ReleasesConfig as ReleasesConfig
from clusterscale.config.run import Config as Config
from clusterscale.config.studies import find_studies as find_studies
from clusterscale.config.studies import load_study as load_study
