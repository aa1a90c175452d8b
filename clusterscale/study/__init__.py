"""The spine: how every analysis is identified, run, resumed, kept and watched."""

from clusterscale.study.analysis import ANALYSES as ANALYSES
from clusterscale.study.analysis import Analysis as Analysis
from clusterscale.study.analysis import AnalysisPlan as AnalysisPlan
from clusterscale.study.analysis import Page as Page
from clusterscale.study.analysis import Study as Study
from clusterscale.study.analysis import built_in as built_in
from clusterscale.study.analysis import find_kind as find_kind
from clusterscale.study.analysis import run as run
from clusterscale.study.resources import PROCESS_BYTES as PROCESS_BYTES
from clusterscale.study.resources import START_SECONDS as START_SECONDS
from clusterscale.study.resources import StudyCost as StudyCost
from clusterscale.study.resources import describe_bytes as describe_bytes
from clusterscale.study.resources import describe_cluster as describe_cluster
from clusterscale.study.resources import describe_cost as describe_cost
from clusterscale.study.resources import measure_slowness as measure_slowness
from clusterscale.study.resources import require_memory as require_memory
from clusterscale.study.stage import Progress as Progress
from clusterscale.study.stage import Stage as Stage
from clusterscale.study.stage import Tell as Tell
from clusterscale.study.stage import each as each
from clusterscale.study.stage import prefixed as prefixed
