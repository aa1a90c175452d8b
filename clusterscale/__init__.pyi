from .analyses.advise import AdvicePlan as AdvicePlan
from .analyses.audit import AuditPlan as AuditPlan
from .analyses.certify import (
    CertifyPlan as CertifyPlan,
    Visits as Visits,
    ceiling as ceiling,
    compose as compose,
)
from .analyses.publish import PublishPlan as PublishPlan
from .analyses.recovery import RecoveryPlan as RecoveryPlan
from .analyses.traits import TraitsPlan as TraitsPlan
from .api import (
    Gate as Gate,
    advise as advise,
    analyse as analyse,
    attack as attack,
    audit as audit,
    certify as certify,
    check as check,
    figures as figures,
    gate as gate,
    ingest as ingest,
    inspect as inspect,
    open_advice as open_advice,
    open_certificates as open_certificates,
    open_recovery as open_recovery,
    open_results as open_results,
    open_screen as open_screen,
    open_traits as open_traits,
    play as play,
    publish as publish,
    read_table as read_table,
    reaudit as reaudit,
    recover as recover,
    repair_tables as repair_tables,
    report as report,
    screen as screen,
    sign_off as sign_off,
    traits as traits,
)
from .cube import TraceCube as TraceCube
from .cube.synthetic import synthesise as synthesise
from .errors import ClusterscaleError as ClusterscaleError
from .registry import register as register
from .reporting import write_report as write_report
from .runtime import Local as Local, Serial as Serial, SerialExecutor as SerialExecutor
from .version import __version__ as __version__
