from .analyses import (
    advise as advise,
    analyse as analyse,
    audit as audit,
    certify as certify,
    publish as publish,
    recover as recover,
    screen as screen,
    traits as traits,
)
from .games import attack as attack, play as play
from .openers import (
    open_advice as open_advice,
    open_certificates as open_certificates,
    open_recovery as open_recovery,
    open_results as open_results,
    open_screen as open_screen,
    open_traits as open_traits,
)
from .records import ingest as ingest, inspect as inspect
from .releases import Gate as Gate, gate as gate, reaudit as reaudit, sign_off as sign_off
from .reports import report as report
from .tables import (
    check as check,
    read_table as read_table,
    repair_tables as repair_tables,
)
