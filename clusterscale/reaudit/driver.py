"""Audit what is new in a catalogue, judge it, and put it in the ledger: once, whoever else tries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from clusterscale.consistency import CHECKS, Table, check_table
from clusterscale.contracts import MEMORY, Executor
from clusterscale.cube import storage
from clusterscale.errors import ClusterscaleError, StoreError
from clusterscale.reaudit.audited import Question, audit_release, make_table
from clusterscale.reaudit.catalogue import Catalogue, Problem
from clusterscale.reaudit.changes import Change, change_since
from clusterscale.reaudit.folder import Audited, Facts, plain
from clusterscale.reaudit.ledger import Ledger, Verdict, key_of
from clusterscale.reaudit.listed import Content, Listed
from clusterscale.reaudit.measured import Measured, measure
from clusterscale.reaudit.members import NOBODY, read_members
from clusterscale.reaudit.plan import ReauditPlan
from clusterscale.reaudit.reasons import (
    judge,
    judge_change,
    judge_findings,
    verdict_of,
)
from clusterscale.reaudit.values import Totals

__all__ = ["Pending", "Reaudit"]

Tell = Callable[[str, int, int, int], None]


@dataclass(frozen=True, slots=True)
class Pending:
    """A release that is to be judged; ``audit`` is the key of its audit, perhaps done already."""

    listed: Listed
    audit: str


class Reaudit:
    """The re-audit of a catalogue; everything is kept below ``output``.

    Parameters
    ----------
    plan, catalogue
        What is asked, of what.
    output
        Folder, a local path or fsspec URL that all workers reach: ``verdicts.parquet/`` with one
        file a verdict, ``runs/`` with a folder for each audit.
    tell
        Told of how far the listing is: what there is, and what is listed.
    """

    def __init__(
        self,
        plan: ReauditPlan,
        catalogue: Catalogue,
        output: str,
        *,
        tell: Callable[[int, int], None] = lambda total, done: None,
    ) -> None:
        self._plan, self._catalogue = plan, catalogue
        self._version, self._policy = version("clusterscale"), plan.policy.digest
        self.output = storage.absolute(output).rstrip("/")
        self.ledger = Ledger(self.output)
        found = catalogue.list(tell)
        self.listed = [each for each in found if isinstance(each, Listed)]
        self.problems = [each for each in found if isinstance(each, Problem)]

    def pending(self) -> list[Pending]:
        """Return what has no verdict yet, in the order of the catalogue.

        A release is judged again when its content, what is said of it, the plan, the policy, the
        cube or the version of the software is another.
        """
        judged, found = self.ledger.keys(), []
        for listed in self.listed:
            cube = self._catalogue.cube_of(listed)
            audit = self._plan.key(listed.identity(), cube.fingerprint, self._version)
            if key_of(listed.series, listed.name, audit, self._policy) not in judged:
                found.append(Pending(listed, audit))
        return found

    def is_audited(self, pending: Pending) -> bool:
        """Tell whether all is there to judge a release by."""
        return self._folder(pending.audit).facts() is not None

    def judge(
        self,
        pending: Pending,
        executor: Executor,
        *,
        memory: int = MEMORY,
        check: Callable[[], None] = lambda: None,
        tell: Tell = lambda stage, total, done, failed: None,
    ) -> Verdict | Problem:
        """Audit one release, unless that is done, and add its verdict to the ledger.

        Parameters
        ----------
        pending
            Which.
        executor, memory
            Where the work is done, and the bytes that a worker may use.
        check
            Called before anything is added; raises if that is no longer allowed.
        tell
            Told how far it is.

        Returns
        -------
        Verdict or Problem
            No verdict where the release cannot be audited, or tasks failed: the same call tries
            again what failed.

        Raises
        ------
        ClusterError, StoreError
            If the cluster or a store gave out: the same call goes on.
        """
        listed = pending.listed
        try:
            content = self._catalogue.read(listed)
            facts = self._audit(pending, content, executor, memory, tell)
            if facts.n_failed:
                error = ClusterscaleError(f"{facts.n_failed} tasks failed; no verdict without them")
                return Problem(listed.name, error)
            row = self._judge(pending, content, facts)
        except StoreError:
            raise
        except ClusterscaleError as error:
            if isinstance(error, RuntimeError):  # of the cluster, not of the release
                raise
            return Problem(listed.name, error)
        check()
        self.ledger.append(row)
        return row

    def _audit(
        self, pending: Pending, content: Content, executor: Executor, memory: int, tell: Tell
    ) -> Facts:
        folder, listed = self._folder(pending.audit), pending.listed
        facts = folder.facts()
        if facts is not None:
            return facts
        cube, members = self._catalogue.cube_of(listed), NOBODY
        if listed.members:
            known = storage.read(listed.members)
            members = read_members(known, listed.members, cube, listed.group_size)
        plan = self._plan
        question = Question(listed.plan(plan.audit), plan.everyone, plan.published)
        return audit_release(
            listed, content, members, cube, question, folder, executor, memory=memory, tell=tell
        )

    def _judge(self, pending: Pending, content: Content, facts: Facts) -> Verdict:
        listed, policy = pending.listed, self._plan.policy
        folder = self._folder(pending.audit)
        results, screen = folder.results(), folder.screen()
        label = listed.mechanism.label
        found = measure(results, screen, label, exposed_above=policy.exposed_above)
        change = change_since(
            self._last(listed), results, screen, label, found, limit=policy.exposed_above
        )
        table = make_table(listed, content, facts.bounds)
        comparing = [CHECKS.create(name) for name in CHECKS if CHECKS[name].compares]
        others = list(self._others(listed))
        findings = check_table(table, others, comparing, seed=self._plan.audit.seed)
        reasons = [
            *judge(policy, found, facts.published),
            *judge_findings(policy, [*facts.findings, *findings]),
            *judge_change(policy, change.drift),
        ]
        return self._row(pending, found, facts, change, verdict_of(reasons), reasons)

    def _last(self, listed: Listed) -> list[tuple[Verdict, Audited]]:
        """Return the last releases of the series, the newest last."""
        rows = self.ledger.last_of(listed.series, listed.name, self._plan.policy.last)
        return [(row, Audited(f"{self.output}/{row.run}")) for row in rows]

    def _others(self, listed: Listed) -> Iterator[Table]:
        """Yield what was published of the same cube before, where it tells of the same epochs."""
        now, seen = self._catalogue.cube_of(listed).fingerprint, set()
        for row in self.ledger.rows:
            meet = row.first < listed.span[1] and listed.first < row.span[1]
            if row.release == listed.name or not meet or row.audit in seen:
                continue
            folder = Audited(f"{self.output}/{row.run}")
            if folder.cube != now:
                continue
            seen.add(row.audit)
            yield folder.table(row.release)
