"""Advice on what to publish, as an analysis."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from clusterscale.analyses.advise.candidate import Candidate
from clusterscale.analyses.advise.causes import Cause, find_causes, furthest
from clusterscale.analyses.advise.choosing import Search, can_screen, unfit
from clusterscale.analyses.advise.goal import AttackedLimit
from clusterscale.analyses.advise.plan import Advice
from clusterscale.analyses.advise.results import ADVICE, ADVICE_FORMAT, lay_out
from clusterscale.analyses.audit import predict as predict_audit
from clusterscale.analyses.screening import check as check_screen
from clusterscale.analyses.screening import predict as predict_screen
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, PoolError
from clusterscale.schema import Variable
from clusterscale.study import Analysis, Page, Stage, Study
from clusterscale.validation_messages import plural


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
    page: ClassVar[Page] = Page(
        word="advice",
        title="What to publish",
        heading="Advice",
        plan="Plan of the search",
        gist="Many mechanisms were compared for a goal, within limits on what they expose.",
        reading="Advice",
        sections="clusterscale.reporting.advice:render_sections",
    )

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
        finalists = self.advice.candidates[: plan.finalists]
        targets = held.search[: plan.search_targets]
        cost = predict_audit(self.advice.attacking(finalists, targets), cube, memory, n_workers)
        low, high = cost.seconds_range
        fitting = (one for one in self.advice.candidates if not unfit(self.advice, cube, one))
        screen = self.advice.screening(tuple(filter(can_screen, fitting)))
        seconds = predict_screen(screen, cube, memory, n_workers).seconds
        return {
            "candidates": f"{len(self.advice.candidates):,}",
            "users of the search": f"{len(held.search):,}",
            "users of the confirmation": f"{len(held.confirm):,}",
            "screen": f"up to {seconds:,.0f} s, if all candidates keep the first limits",
            "attacks on finalists": f"{low:,.0f} to {high:,.0f} s, up to a few times",
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
        searches, notes, causes = [first], list[str](), list[tuple[Cause, str]]()
        if advised is None:
            causes = find_causes(first.candidates, first.users)
            if plan.coarsen or causes[0][0] != "too slow to confirm":
                advised = yield from self._coarsen(job, searches, notes)
        columns, about = lay_out(self.advice, searches, advised)
        about |= {"verdict": "advised", "cause": ""}
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
