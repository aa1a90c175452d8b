"""The spine: how every analysis is identified, run, resumed, kept and watched."""

from clusterscale.study.analysis import (
    ANALYSES,
    Analysis,
    AnalysisPlan,
    Page,
    Study,
    built_in,
    find_kind,
    run,
)
from clusterscale.study.resources import (
    PROCESS_BYTES,
    START_SECONDS,
    StudyCost,
    describe_bytes,
    describe_cluster,
    describe_cost,
    measure_slowness,
    require_memory,
)
from clusterscale.study.stage import Progress, Stage, Tell, each, prefixed
