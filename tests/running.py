"""Run one analysis on an executor, without those that are shown beside it."""

from clusterscale import study
from clusterscale.analyses.advise import AdviseAnalysis
from clusterscale.analyses.audit import AuditAnalysis
from clusterscale.analyses.recovery import RecoveryAnalysis
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.analyses.traits import TraitsAnalysis


def run(plan, cube, output, executor, **options):
    """Run or resume an audit."""
    return study.run(AuditAnalysis(plan), cube, output, executor, **options)


def screen(plan, cube, output, executor, **options):
    """Run or resume the screen of the plan of an audit."""
    return run_screen(plan.whole_screen, cube, output, executor, **options)


def run_screen(made, cube, output, executor, **options):
    """Run or resume a screen."""
    return study.run(ScreenAnalysis(made), cube, output, executor, **options)


def traits(plan, cube, output, executor, *, how=None, **options):
    """Compare the most with the least exposed users of a run."""
    return study.run(TraitsAnalysis(plan, how), cube, output, executor, **options)


def recover(plan, cube, output, executor, **options):
    """Run or resume a recovery."""
    return study.run(RecoveryAnalysis(plan), cube, output, executor, **options)


def advise(advice, cube, output, executor, *, confirm=None, **options):
    """Search for advice and confirm it."""
    return study.run(AdviseAnalysis(advice, confirm), cube, output, executor, **options)
