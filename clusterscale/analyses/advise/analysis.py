"""Advice on what to publish, as an analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from clusterscale.analyses.advise.choosing import Search, can_screen, unfit
from clusterscale.analyses.advise.plan import Advice
from clusterscale.analyses.advise.results import ADVICE, ADVICE_FORMAT, lay_out
from clusterscale.analyses.audit import predict as predict_audit
from clusterscale.analyses.screening import check as check_screen
from clusterscale.analyses.screening import predict as predict_screen
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.schema import Variable
from clusterscale.study import Analysis, Page, Stage, Study


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
        }

    def input_digest(self, cube: TraceCube, run_uri: str) -> str:
        """Return the fingerprint of the cube of the confirmation."""
        return "" if self.confirm is None else self.confirm.fingerprint

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stages of the search and of the confirmation, then write the advice."""
        search = Search(self.advice, job, job.cube if self.confirm is None else self.confirm)
        yield from search.certify()
        yield from search.screen()
        yield from search.measure()
        yield from search.attack()
        advised, verdict = yield from search.confirm()
        columns, about = lay_out(self.advice, search, advised, verdict)
        chunks = {name: len(columns[name]) for name in ("mechanism", "measure")}
        self.table(job, columns, chunks, about).finish()
