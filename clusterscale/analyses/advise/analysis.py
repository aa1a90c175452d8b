"""Advice on what to publish, as an analysis; and why nothing is advised, if that is so."""

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from clusterscale.analyses.advise.candidate import STAGES, Candidate
from clusterscale.analyses.advise.choosing import Search, can_screen, unfit
from clusterscale.analyses.advise.goal import AttackedLimit, Finding
from clusterscale.analyses.advise.plan import Advice, AdvicePlan, HeldOut
from clusterscale.analyses.advise.results import ADVICE, ADVICE_FORMAT, lay_out
from clusterscale.analyses.audit import predict as predict_audit
from clusterscale.analyses.screening import check as check_screen
from clusterscale.analyses.screening import predict as predict_screen
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, PoolError
from clusterscale.schema import Variable
from clusterscale.study import Analysis, Stage, Study
from clusterscale.validation_messages import plural

Cause = Literal["none exists", "too slow to confirm", "too few users", "cannot be shown"]
"""Why no candidate is advised."""

_GROUNDS = (
    "{} not for these cells or groups", "{} by guarantees or certificates", "{} in the screen",
    "{} by utility", "{} under attack", "{} in the confirmation",
)  # fmt: skip
_REMEDIES = {
    "targets": "raise advise.search_targets and confirm_targets",
    "groups": "raise advise.groups and confirm_groups",
    "challenges": "raise challenges of the priors",
    "tries": "relax a limit, or name fewer families",
}


def find_causes(candidates: Sequence[Candidate], users: HeldOut) -> list[tuple[Cause, str]]:
    """Return each cause for which candidates are not advised, with a sentence and its numbers.

    First is that of the candidate which exposes least among those that may keep all limits.

    Parameters
    ----------
    candidates
        All candidates of a search that advises none.
    users
        Users of the search, and of the confirmation.
    """
    doubtful = dict[Cause, list[tuple[Candidate, Finding, int]]]()
    for one in sorted(candidates, key=lambda one: one.exposure):
        n_users = len(users.search if one.confirmed is None else users.confirm)
        if one.doubts:
            hardest = max(one.doubts, key=lambda finding: _rank(finding, n_users))
            cause = get_args(Cause)[_rank(hardest, n_users)[0]]
            doubtful.setdefault(cause, []).append((one, hardest, n_users))
    found = [(cause, _say(cause, some)) for cause, some in doubtful.items()]
    return found or [("none exists", _say_none(candidates))]


def furthest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order of how far they got, of these the least exposed first."""
    return sorted(candidates, key=lambda one: (-STAGES.index(one.reached), one.exposure))


def _rank(finding: Finding, n_users: int) -> tuple[int, float]:
    """Return the position of the cause of a doubt, and how much more it takes.

    A forecast from less than half of the users does not show that all of them are too few.
    """
    too_few = finding.seen == "targets" and finding.times * finding.n > n_users <= 2 * finding.n
    rank = 2 if too_few or finding.seen == "users" else 1 if finding.seen else 3
    return rank, finding.times


def _say(cause: Cause, doubtful: Sequence[tuple[Candidate, Finding, int]]) -> str:
    closest, finding, n_users = doubtful[0]
    text = (
        f"{cause.capitalize()}: {plural(len(doubtful), 'candidate')} may keep all limits and "
        f"bounds. Closest is {closest.mechanism.heading}: {finding.text}"
    )
    if np.isfinite(finding.times):
        n = ceil(finding.times * finding.n)
        many = f"{n:,}" if n else f"{finding.times:.1f} times as many"
        text += f"; about {many} {finding.seen} would tell"
    text += f"; there are {n_users:,} users" * (finding.seen in ("users", "targets"))
    return text + (f": {_REMEDIES[finding.seen]}." if cause == "too slow to confirm" else ".")


def _say_none(candidates: Sequence[Candidate]) -> str:
    counts = Counter(one.reached for one in candidates)
    pairs = zip(STAGES, _GROUNDS, strict=True)
    grounds = [text.format(counts[stage]) for stage, text in pairs if counts[stage]]
    last = furthest(candidates)[0]
    return (
        f"All {plural(len(candidates), 'candidate')} were shown to break a limit or a bound: "
        f"{', '.join(grounds)}. Furthest got {last.mechanism.heading}: {last.reason}."
    )


class AdviseAnalysis(Analysis):
    """Search for the mechanism that serves a goal within limits, and confirm it.

    Parameters
    ----------
    advice
        Goal, limits, candidates, and the audit that evaluates them.
    confirm
        The cube on which the advice is confirmed; None: the cube of the search, on users that the
        search does not target.
    """

    kind: ClassVar[str] = "advise"
    opener: ClassVar[str] = "open_advice"
    noun: ClassVar[str] = "advice"
    form: ClassVar[str] = ADVICE_FORMAT
    schema: ClassVar[Mapping[str, Variable]] = ADVICE
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_advice"

    def __init__(self, advice: Advice, confirm: TraceCube | None = None) -> None:
        self.advice, self.confirm = advice, confirm
        self.plan = advice
        self.seed, self.null_roi = advice.audit.seed, advice.audit.null_roi

    def settings(self) -> Any:
        """Return the plan and all candidates."""
        return self.advice, self.advice.candidates

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` or :class:`PoolError` if a cube cannot answer."""
        confirm = cube if self.confirm is None else self.confirm
        held = self.advice.split(cube, confirm)
        for some, users in ((cube, held.search), (confirm, held.confirm)):
            self.advice.attacking(self.advice.audit.mechanisms[:1], users[:1]).check(some)
        fitting = [one for one in self.advice.candidates if not unfit(self.advice, cube, one)]
        if not fitting:
            raise ConfigError(
                "advise.families: no candidate fits the group sizes and cells of the audit"
            )
        if screened := tuple(filter(can_screen, fitting)):
            for some in (cube, confirm):
                check_screen(self.advice.screening(screened), some)

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return the number of candidates, and the cost of the attacks on the finalists."""
        plan, held = self.advice.plan, self.advice.split(cube, self.confirm or cube)
        fitting = [one for one in self.advice.candidates if not unfit(self.advice, cube, one)]
        finalists = tuple(fitting)[: None if plan.by_bounds else plan.finalists]
        times = "if all keep the bounds" if plan.by_bounds else "up to a few times"
        targets = held.search[: plan.search_targets]
        cost = predict_audit(self.advice.attacking(finalists, targets), cube, memory, n_workers)
        low, high = cost.seconds_range
        screen = self.advice.screening(tuple(filter(can_screen, fitting)))
        seconds = predict_screen(screen, cube, memory, n_workers).seconds
        return {
            "candidates": f"{len(self.advice.candidates):,}",
            "users of the search": f"{len(held.search):,}",
            "users of the confirmation": f"{len(held.confirm):,}",
            "screen": f"up to {seconds:,.0f} s, if all candidates keep the first limits",
            "attacks on finalists": f"{low:,.0f} to {high:,.0f} s, {times}",
            "way": "certificates, screens, utility by successive halving, attacks on "
            "finalists, confirmation",
            "if nothing is left": "the first three steps for finalists on 8 coarser cells, in 3 "
            "group sizes; with coarsen all steps for all candidates; not in these seconds",
        }

    def input_digest(self, cube: TraceCube, run_uri: str) -> str:
        """Return the fingerprint of the cube of the confirmation."""
        return "" if self.confirm is None else self.confirm.fingerprint

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stages of the search and of the confirmation, then write the advice."""
        plan, confirm = self.advice.plan, job.cube if self.confirm is None else self.confirm
        first = Search(self.advice, job, confirm, plan.tries)
        advised = yield from first.run()
        causes = [] if advised else find_causes(first.candidates, first.users)
        searches, notes = [first], list[str]()
        is_wanting = advised is None or _say_no_use(plan, advised)[1]
        if (plan.coarsen and is_wanting) or (causes and causes[0][0] != "too slow to confirm"):
            coarser = yield from self._coarsen(job, searches, notes)
            if advised and not coarser:
                searches.append(searches.pop(0))  # the last search is that of the advice
            advised = coarser or advised
        notes[:0] = filter(None, [_say_no_use(plan, advised)[0]])
        columns, about = lay_out(self.advice, searches, advised)
        about |= {"verdict": "advised", "cause": "", "confirmed_on": confirm.known_fingerprint}
        if advised is None:
            candidates = [one for search in searches for one in search.candidates]
            causes = find_causes(candidates, first.users)
            tried = "inconclusive" if any(one.confirmed for one in candidates) else "undecided"
            verdict = "none" if causes[0][0] == "none exists" else tried
            about |= {"verdict": verdict, "cause": causes[0][0]}
        plain = "With the cells and groups of the plan: " if advised else ""
        about["notes"] = json.dumps([*(f"{plain}{text}" for _, text in causes), *notes])
        chunks = {name: len(columns[name]) for name in ("mechanism", "measure")}
        self.table(job, columns, chunks, about).finish()

    def _coarsen(
        self, job: Study, searches: list[Search], notes: list[str]
    ) -> Generator[Stage[Any, Any], None, Candidate | None]:
        """Yield the stages of searches of coarser cells and larger groups until one advises.

        Without ``coarsen`` none of their candidates is attacked; ``notes`` get which may help.
        """
        (first,), plan = searches, self.advice.plan
        chosen = furthest(first.candidates)[: None if plan.coarsen else plan.finalists]
        least = min(one.exposure for one in chosen)
        for variant in self.advice.coarser([one.mechanism for one in chosen]):
            size, last = min(variant.audit.group_sizes), searches[-1]
            what = f"groups of {size:,} and merged places and epochs"
            if plan.coarsen and not last.tries:
                notes.append(f"Not searched: {what}: all {plan.tries} tries were used.")
                break
            try:
                AdviseAnalysis(variant, self.confirm).check(job.cube, job.memory)
            except (ConfigError, PoolError) as error:
                notes.append(f"Not searched: {what}: {error}.")
                if size > min(self.advice.audit.group_sizes):
                    break
                continue
            part = replace(job, uri=f"{job.uri}/coarser-{size}")
            search = Search(variant, part, first.confirm_cube, last.tries)
            if not plan.coarsen:
                yield from search.evaluate()
                notes += _say_useful(search, what, least, len(chosen))
            else:
                notes.append(f"Searched, too: {what}.")
                searches.append(search)
                if (advised := (yield from search.run())) is not None:
                    return advised
        return None


def _say_no_use(plan: AdvicePlan, advised: Candidate | None) -> tuple[str, bool]:
    """Return what of a mechanism is worse than a guess, with what helps, and whether all is.

    The text is empty if all is better.
    """
    measured = advised and advised.measured
    compared, useless = measured.compare_with_guess(plan.goal) if measured else ("", False)
    if not compared:
        return "", False
    ask = "" if plan.coarsen else ": search them by --coarsen"
    guess = "a guess without any traces (random values, zeros or equal counts)"
    said = f"It is of no use: {guess} is as good" if useless else f"Partly, {guess} is better"
    return f"{said}: {compared}. Coarser cells, longer steps or larger groups help{ask}.", useless


def _say_useful(search: Search, what: str, least: float, n: int) -> Iterator[str]:
    """Yield which candidates may keep all limits: the one on the finest cells, the least exposed.

    ``least`` is the least exposure of the ``n`` candidates that they are made of.
    """
    limit = search.plan.limits.attacked or AttackedLimit(worst_auc=1.0)
    most = 2 * min(limit.mean_auc or 1, limit.worst_auc or 1) - 1
    left = [one for one in search.left if one.exposure <= most]
    useful = [one for one in left if search.useful(one) == "holds"]
    for one in dict.fromkeys([*useful[:1], *sorted(useful, key=lambda one: one.exposure)[:1]]):
        yield (
            f"May help in {what.partition(' and')[0]}, but was not attacked: "
            f"{one.mechanism.heading}, with a privacy loss of {one.exposure:.3f}, not {least:.3f}; "
            "search it by --coarsen."
        )
    if not useful:
        yield f"Not shown to help: {what}, for the {plural(n, 'candidate')} that got furthest."
