"""The search: each step evaluates the candidates that are left, and drops some."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from clusterscale.analyses.advise import certificates, exposure
from clusterscale.analyses.advise.candidate import Candidate, Confirmation
from clusterscale.analyses.advise.fronts import front_of, halve, next_batch
from clusterscale.analyses.advise.goal import Finding, Verdict
from clusterscale.analyses.advise.measuring import measure, read_utility, utility_findings
from clusterscale.analyses.advise.plan import Advice
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan, count_failed
from clusterscale.analyses.audit.plan import find_unfit
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.contracts import Floats, Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source
from clusterscale.errors import StudyError
from clusterscale.phrases import BROKEN
from clusterscale.study import Analysis, Stage, Study, each

Steps = Generator[Stage[Any, Any], None, None]


def substages(
    analysis: Analysis, job: Study, name: str, cube: TraceCube | None = None
) -> Iterator[Stage[Any, Any]]:
    """Yield the stages of an analysis that belongs to the study ``job``.

    It keeps its results in the folder ``name`` of the study and is resumed like any other.

    Parameters
    ----------
    analysis
        The analysis; it has checked ``cube``.
    job
        The study that it is a part of.
    name
        Folder below that of the study; begins the names of the stages.
    cube
        The traces, if they are others than those of the study.
    """
    cube = job.cube if cube is None else cube
    folder = f"{job.uri}/{name}"
    uri = analysis.uri(folder)
    analysis.claim(uri, cube, force=True, keep=True)
    source = Source.of(cube, null_roi=analysis.null_roi, seed=analysis.seed)
    part = Study(cube, source, folder, uri, "", job.memory, job.n_workers)
    for stage in analysis.stages(part):
        yield replace(stage, name=f"{name}: {stage.name}")


def unfit(advice: Advice, cube: TraceCube, mechanism: Mechanism) -> str:
    """Return why a mechanism does not fit the cells and groups of a cube, empty if it does."""
    plan = advice.measuring((mechanism,), 2)
    return "; ".join(reason for _, reason in find_unfit(plan, cube))


def can_screen(mechanism: Mechanism) -> bool:
    """Return whether a screen can score the releases of a mechanism."""
    scope = mechanism.noise_scope
    return scope != "release" and not (mechanism.uses_weights and scope == "series")


class Search:
    """Candidates, and the steps that evaluate them.

    Parameters
    ----------
    advice
        Goal, limits and candidates.
    job
        The study; all results are kept in its folder.
    confirm
        Cube of the confirmation.
    tries
        Largest number of candidates that are confirmed; less than that of the plan if an earlier
        search has confirmed some.
    """

    def __init__(self, advice: Advice, job: Study, confirm: TraceCube, tries: int) -> None:
        self.advice, self.plan, self._job, self.confirm_cube = advice, advice.plan, job, confirm
        self.candidates = [Candidate(mechanism) for mechanism in advice.candidates]
        self.users, self.tries = advice.split(job.cube, confirm), tries
        self.confirmed_on_search_cube = job.cube.fingerprint == confirm.fingerprint
        self.order: list[Candidate] = []
        self.n_batches = 0
        for candidate in self.candidates:
            candidate.reason = unfit(advice, job.cube, candidate.mechanism)

    @property
    def left(self) -> list[Candidate]:
        """Candidates that have not fallen out."""
        return [candidate for candidate in self.candidates if not candidate.reason]

    @property
    def unattacked(self) -> list[Candidate]:
        """Candidates that were not attacked, and not shown to break a limit or a bound."""
        some = (one for one in self.candidates if one.attacked is None)
        return [one for one in some if one.doubts or self.useful(one) != "fails"]

    def evaluate(self) -> Steps:
        """Yield the stages before any attack."""
        yield from self.certify()
        yield from self.screen()
        yield from self.measure()

    def run(self) -> Generator[Stage[Any, Any], None, Candidate | None]:
        """Yield all stages; return the advised candidate, None if there is none."""
        yield from self.evaluate()
        yield from self.attack()
        return (yield from self.confirm())

    def certify(self) -> Steps:
        """Yield the stage of certificates; drop who misses a limit on them."""
        found = yield from self._certificates("certify", self._job.cube, self.left)
        for candidate in self.left:
            candidate.reached, candidate.certificate = "certified", found[candidate.id]
            candidate.drop(certificates.certified_findings(found[candidate.id], self.plan.limits))

    def _certificates(
        self, name: str, cube: TraceCube, candidates: Sequence[Candidate]
    ) -> Generator[Stage[Any, Any], None, dict[str, Any]]:
        records = certificates.certificates_in(f"{self._job.uri}/{name}")
        done = {key for key, _ in records}
        tasks = certificates.certify_tasks(self.advice, cube, [one.mechanism for one in candidates])
        left = [task for task in tasks if certificates.key_of(task) not in done]

        def keep(task: certificates.CertifyTask, found: list[certificates.Certificate]) -> None:
            records.add((certificates.key_of(task), found))

        yield Stage(
            name, certificates.certify, left, each(keep), len(tasks), len(tasks) - len(left)
        )
        every, ids = [one for _, some in records for one in some], [one.id for one in candidates]
        return {
            name: certificates.worst_of([one for one in every if one.mechanism == name])
            for name in ids
        }

    def screen(self) -> Steps:
        """Yield the stages of a screen of all users; drop who is not shown to keep its limit."""
        scored = [candidate for candidate in self.left if can_screen(candidate.mechanism)]
        found = yield from self._screens("screen", self._job.cube, scored, self.users.search)
        for candidate in self.left:
            candidate.screened = found.get(candidate.id)
            candidate.reached = "screened" if candidate.screened else candidate.reached
            limit = self.plan.limits.screened
            candidate.drop(exposure.screened_findings(candidate.screened, limit, candidate.ceiling))

    def _screens(
        self, name: str, cube: TraceCube, candidates: Sequence[Candidate], users: Any
    ) -> Generator[Stage[Any, Any], None, dict[str, exposure.Screened]]:
        if not candidates:
            return {}
        mechanisms = tuple(candidate.mechanism for candidate in candidates)
        analysis = ScreenAnalysis(self.advice.screening(mechanisms, confirm=name != "screen"))
        yield from substages(analysis, self._job, name, cube)
        with analysis.open(f"{self._job.uri}/{name}") as screened:
            return exposure.read_screened(screened, users, self.plan.limits.screened)

    def measure(self) -> Steps:
        """Yield the rounds of utility; after each but the last, keep the better half.

        A round ends the search if few enough are left. Who misses a bound with its whole interval
        falls out. If the least exposed within bounds is wanted, nobody else does, and those not yet
        shown to keep the bounds are measured again, on up to four times the confirmation's groups.
        """
        for number in count():
            left, n_groups = self.left, self.plan.groups * 2**number
            if self.plan.by_bounds:
                left = [one for one in left if self.useful(one) != "holds"]
            if not left:
                return
            mechanisms = [candidate.mechanism for candidate in left]
            name = f"utility-{number + 1}"
            found = yield from measure(self.advice, self._job, name, mechanisms, n_groups)
            for candidate in left:
                candidate.reached, candidate.measured = "measured", found[candidate.id]
                findings = utility_findings(found[candidate.id], self.plan.goal)
                candidate.drop(findings, unless=("holds", "unclear"))
            left, is_last = self.left, number + 1 >= self.plan.rounds
            if self.plan.by_bounds:
                if is_last and 2 * n_groups > 4 * self.plan.confirm_groups:
                    return
                continue
            if len(left) <= self.plan.finalists or is_last:
                return
            kept = set(halve(*self._axes(left), self.plan.finalists).tolist())
            for i, candidate in enumerate(left):
                if i not in kept:
                    candidate.reason = self._explain(candidate, left)

    def _axes(self, candidates: Iterable[Candidate]) -> tuple[Floats, Floats]:
        pairs = [(one.score(self.plan), one.exposure) for one in candidates]
        scores, exposures = np.array(pairs, np.float64).reshape(-1, 2).T
        return scores, exposures

    def _explain(self, candidate: Candidate, others: Sequence[Candidate]) -> str:
        """Return why a candidate is worse than others, naming the best one that dominates it."""
        own = candidate.score(self.plan), -candidate.exposure
        axes = {one.id: (one.score(self.plan), -one.exposure) for one in others}
        better = [
            one
            for one in others
            if axes[one.id] != own and all(a >= b for a, b in zip(axes[one.id], own, strict=True))
        ]
        if not better:
            return f"others had a better score ({_say(*own)})"
        best = max(better, key=lambda one: axes[one.id])
        return f"{best.mechanism.heading} is better: {_say(*axes[best.id])}, against {_say(*own)}"

    def attack(self) -> Steps:
        """Yield the stages of attacks, in batches.

        Attacked are candidates that nobody dominates; if the least exposed within bounds is wanted,
        all that keep them.
        """
        for candidate in self.left:
            if candidate.measured is not None:
                candidate.drop(utility_findings(candidate.measured, self.plan.goal))
        left = self.left
        if not left:
            return
        measured = [one for one in self.candidates if one.measured is not None]
        for i in front_of(*self._axes(measured)):
            measured[i].on_front = True
        front = [left[i] for i in front_of(*self._axes(left))]
        self.order = [] if self.plan.by_bounds else front
        if self.plan.by_bounds:
            yield from self._attack_by_exposure(left)
        elif self.plan.limits.attacked is None:
            yield from self._attack_also(front[: self.plan.finalists])
        else:
            yield from self._attack_front(front)
        n_batches = self.n_batches
        if self.plan.limits.attacked is not None and not self.plan.by_bounds:
            yield from self._attack_others()
        others_count = self.n_batches > n_batches
        for candidate in self.candidates:
            is_open = not candidate.reason
            is_open |= others_count and self.useful(candidate) == "holds"
            if is_open and candidate.reached == "measured":
                candidate.reason = self._explain_unattacked(candidate, left)

    def _attack_by_exposure(self, left: Sequence[Candidate]) -> Steps:
        """Yield attacks on all, and order them by exposure.

        The least exposed in the screen are first. Not attacked are those that the screen shows to
        be more exposed than the least exposed one by more than its interval under attack.
        """
        others = sorted(left, key=lambda one: one.exposure)
        while batch := [one for one in others if self._may_be_least(one)][: self.plan.finalists]:
            others = [one for one in others if one not in batch]
            yield from self._attack_also(batch)
            self.order.sort(key=lambda one: one.auc)

    def _may_be_least(self, candidate: Candidate) -> bool:
        """Return whether a candidate may be less exposed than all that kept the limits so far."""
        for best in self._kept()[:1]:
            assert best.attacked is not None
            high = best.attacked.high
            most = max(high, best.screened_auc + high - best.attacked.mean)
            return candidate.screened_auc <= most
        return True

    def _attack_others(self) -> Steps:
        """Yield the stages of attacks on the others, if none of the first ones passed.

        The front is that of the screen, whose attacks may be weak against a mechanism that others
        break, or strong against one that they do not. The most exposed of the front that passes is
        searched by bisection; where none of it passes, all are attacked, the least exposed first,
        until one passes.
        """
        others = [one for one in self.candidates if self.useful(one) == "holds"]
        if any(map(self._passed, self.order)) or not others:
            return
        yield from self._attack_front([others[i] for i in front_of(*self._axes(others))])
        others = [one for one in others if one.attacked is None]
        others.sort(key=lambda one: one.exposure)
        for start in range(0, len(others), self.plan.finalists):
            if any(map(self._passed, self.order)):
                break
            yield from self._attack_also(others[start : start + self.plan.finalists])
        self.order.sort(key=lambda one: -one.score(self.plan))

    def _attack_front(self, front: Sequence[Candidate]) -> Steps:
        """Yield attacks on a front, the best first, until the first one that passes is known."""
        while batch := next_batch(list(map(self._passed, front)), self.plan.finalists):
            yield from self._attack_also([front[i] for i in batch])

    def _attack_also(self, batch: Sequence[Candidate]) -> Steps:
        """Yield attacks on candidates, of which some may have fallen out for others."""
        for one in batch:
            one.reason = ""
        self.order += [one for one in batch if one not in self.order]
        yield from self._attack(batch)

    def useful(self, candidate: Candidate) -> Verdict:
        """Return whether a candidate that was measured, but not attacked, keeps all bounds."""
        if candidate.reached != "measured" or candidate.measured is None:
            return "fails"
        found = utility_findings(candidate.measured, self.plan.goal)
        verdicts = {finding.verdict for finding in found}
        return "fails" if "fails" in verdicts else "unclear" if "unclear" in verdicts else "holds"

    def _explain_unattacked(self, candidate: Candidate, others: Sequence[Candidate]) -> str:
        """Return why a candidate that passed all rounds was not attacked."""
        for ahead in self.order:
            if ahead.reached == "attacked" and not ahead.reason:
                better = ahead.score(self.plan) >= candidate.score(self.plan)
                if self.plan.by_bounds or better:
                    word = "less exposed" if self.plan.by_bounds else "more useful"
                    return f"{ahead.mechanism.heading} is {word} and kept all limits of the search"
                break
        failed = (one for one in self.order if one.attacked is not None and one.reason)
        if any(one.exposure <= candidate.exposure for one in failed):
            return "more exposed in the screen than one that failed under attack"
        return self._explain(candidate, [*others, *self.order])

    def _passed(self, candidate: Candidate) -> bool | None:
        return None if candidate.attacked is None else not candidate.reason

    def _attack(self, batch: Sequence[Candidate]) -> Steps:
        self.n_batches += 1
        mechanisms = tuple(candidate.mechanism for candidate in batch)
        plan = self.advice.attacking(mechanisms, self.users.search[: self.plan.search_targets])
        results = yield from self._audit(f"attack-{self.n_batches}", plan, self._job.cube)
        with results:
            for candidate in batch:
                candidate.attacked = exposure.read_attacked(
                    results, candidate.id, candidate.ceiling
                )
                candidate.reached = "attacked"
                candidate.drop(
                    exposure.attacked_findings(candidate.attacked, self.plan.limits.attacked)
                )

    def _audit(
        self, name: str, plan: AuditPlan, cube: TraceCube
    ) -> Generator[Stage[Any, Any], None, Any]:
        analysis = AuditAnalysis(plan)
        yield from substages(analysis, self._job, name, cube)
        results = analysis.open(f"{self._job.uri}/{name}")
        if n_failed := count_failed(results):
            raise StudyError(
                f"{n_failed} tasks of {name} failed; {self._job.uri}/{name}/failures.txt names "
                "them, and the same command runs them again"
            )
        return results

    def confirm(self) -> Generator[Stage[Any, Any], None, Candidate | None]:
        """Yield the stages of the confirmation, and return who is advised.

        Up to ``tries`` candidates are confirmed, until all limits hold for one: the best first, and
        then, if the score is to be high, the best of those that are half as exposed.
        """
        tried = list[Candidate]()
        while self.tries and (candidate := (yield from self._next_try(tried))):
            self.tries -= 1
            tried.append(candidate)
            yield from self._confirm_one(f"confirm-{len(tried)}", candidate)
            assert candidate.confirmed is not None
            candidate.drop(candidate.confirmed.findings(self.plan))
            if not candidate.reason:
                for other in self._kept():
                    self._compare(other, candidate)
                return candidate
            candidate.reason = f"not confirmed: {candidate.reason}"
        for other in self._kept():
            other.reason = f"not tried after {self.plan.tries} that were not confirmed"
            other.doubts = (Finding("unclear", other.reason, "tries"),)
        for other in self.candidates:
            if other.measured is not None and self.useful(other) != "fails":
                found = utility_findings(other.measured, self.plan.goal)
                doubts = tuple(one for one in found if one.verdict == "unclear")
                other.doubts = doubts or (Finding("unclear", "it was not attacked", "tries"),)
        return None

    def _kept(self) -> list[Candidate]:
        """Candidates that kept all limits under attack, in the order of preference."""
        return [one for one in self.order if one.reached == "attacked" and not one.reason]

    def _compare(self, other: Candidate, advised: Candidate) -> None:
        """Say why another one that kept all limits under attack is not advised."""
        if other.score(self.plan) > advised.score(self.plan) and not self.plan.by_bounds:
            other.reason = "more exposed in the search, as was one that was not confirmed"
        else:
            word = "less exposed" if self.plan.by_bounds else "more useful"
            other.reason = f"{advised.mechanism.heading} is {word} and was confirmed"

    def _next_try(
        self, tried: Sequence[Candidate]
    ) -> Generator[Stage[Any, Any], None, Candidate | None]:
        """Yield attacks on safer candidates if one was not confirmed; return whom to confirm."""
        if not tried or self.plan.by_bounds or self.plan.limits.attacked is None:
            return next(iter(self._kept()), None)
        most = tried[-1].exposure / 2
        safer = [one for one in self.candidates if self.useful(one) == "holds"]
        safer = [one for one in safer if one.exposure <= most and one.attacked is None]
        safer.sort(key=lambda one: -one.score(self.plan))
        if batch := safer[: self.plan.finalists]:
            yield from self._attack_also(batch)
            self.order.sort(key=lambda one: -one.score(self.plan))
        kept = self._kept()
        return next((one for one in kept if one.exposure <= most), kept[0] if kept else None)

    def _confirm_one(self, name: str, candidate: Candidate) -> Steps:
        certificate = candidate.certificate
        if not self.confirmed_on_search_cube:
            found = yield from self._certificates(f"{name}-certify", self.confirm_cube, [candidate])
            certificate = found[candidate.id]
        screened = None
        if can_screen(candidate.mechanism):
            scored = yield from self._screens(
                f"{name}-screen", self.confirm_cube, [candidate], self.users.confirm
            )
            screened = scored[candidate.id]
        users = self.users.confirm[: self.plan.confirm_targets]
        assert certificate is not None
        assert candidate.measured is not None
        n_groups = self.plan.confirm_groups  # at least as many as it took to show its bounds
        if self.plan.by_bounds:
            n_groups = max(n_groups, candidate.measured.n_groups)
        plan = self.advice.confirming(candidate.mechanism, users, n_groups)
        results = yield from self._audit(f"{name}-audit", plan, self.confirm_cube)
        with results:
            candidate.confirmed = Confirmation(
                certificate=certificate,
                screened=screened,
                attacked=exposure.read_attacked(results, candidate.id, certificate.ceiling),
                measured=read_utility(results, candidate.id, n_groups),
                refuted=bool((results.verdict.sel(mechanism=candidate.id) == BROKEN).any()),
            )
        candidate.reached = "confirmed"


def _say(score: float, safety: float) -> str:
    return f"score {score:.3f} and mean privacy loss {abs(safety):.3f}"
