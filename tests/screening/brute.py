"""A screen the long way: every release formed and scored by itself, compared pair by pair."""

import numpy as np

from clusterscale.analyses.screening.base_groups import members_within
from clusterscale.attacks import create
from clusterscale.contracts import NO_NOISE, Examples, Knowledge, Release, TargetKnowledge
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise
from clusterscale.seeds import stream

RNG = np.random.default_rng(0)  # closed forms draw nothing from it


class Brute:
    """Dense traces (user, roi, epoch) of a setting, and its groups as sets of users."""

    def __init__(self, dense, source, setting, plan, bounds):
        self.dense, self.source, self.setting, self.plan = dense, source, setting, plan
        self.bounds, n_users = bounds, len(dense)
        n_all = plan.groups + plan.reference
        user, group, stand = members_within(source, setting, range(n_all), n_users, 0, n_users)
        self.members = [set(user[group == g].tolist()) for g in range(n_all)]
        self.stand_in = [int(user[(group == g) & (stand == 1)][0]) for g in range(n_all)]
        self.seen = dense.reshape(n_users, -1).any(axis=0)
        self.mean = dense.mean(axis=0)

    def base(self, g):
        others = sorted(self.members[g] - {self.stand_in[g]})
        return self.dense[others].sum(axis=0).astype(np.int32)

    def publish(self, mechanism, key, g, counts, use):
        if mechanism.noise == NO_NOISE:
            return counts.astype(float)
        path = ("screen noise", *self.setting.path, key, g)
        rng = stream(
            self.source.seed, *path, *(() if mechanism.noise_is_count_independent else (use,))
        )
        size = self.setting.group_size
        return mechanism.release(counts[None], group_size=size, rng=rng)[0]

    def with_stand_in(self, mechanism, key, g):
        counts = self.base(g) + self.dense[self.stand_in[g]]
        return self.publish(mechanism, key, g, counts, "stand-in")

    def with_user(self, mechanism, key, g, user):
        """What one more visit reaches is published anew: its cell, or the series of its ROI."""
        trace, base = self.dense[user], self.base(g)
        released = self.publish(mechanism, key, g, base, "nobody")
        if mechanism.noise_scope == "cell":
            more = self.publish(mechanism, key, g, base + 1, "present")
            return np.where(trace, more, released)
        rois = np.flatnonzero(trace.any(axis=1))
        rng = stream(self.source.seed, "screen noise", *self.setting.path, key, "user", user)
        counts = np.stack([(self.base(h) + trace)[rois] for h in range(self.plan.groups)])
        anew = mechanism.release(counts, group_size=self.setting.group_size, rng=rng)
        released[rois] = anew[g]
        return released

    def scores(self, mechanism, attack, user):
        """Scores of all groups that the user is not in, with the user and with the stand-in."""
        key, bound = mechanism.id, mechanism.bind(self.bounds)
        groups = [g for g in range(self.plan.groups) if user not in self.members[g]]
        inside = np.stack([self.with_user(bound, key, g, user) for g in groups])
        outside = np.stack([self.with_stand_in(bound, key, g) for g in groups])
        rule = self.rule(bound, key, attack, self.dense[user])
        return rule(inside), rule(outside)

    def rule(self, bound, key, attack, trace):
        law = bound.law_for_attacks(self.setting.group_size)
        if (bound.noise is not None or law is not None) and attack == "likelihood":
            return lambda values: self._fitted(bound, law, trace, values)
        p = (self.mean * len(self.dense) + 0.5) / (len(self.dense) + 1)
        size, one = self.setting.group_size, p * (1 - p)
        shift = trace - self.mean
        if attack == "projection":
            return lambda values: self._sum(shift * values)
        if bound.noise is None:
            some = range(self.plan.groups, len(self.members))
            seen = np.stack([self.with_stand_in(bound, key, g) for g in some])
            mean, spread = seen.mean(axis=0), np.maximum(seen.var(axis=0), one)
        else:
            mean, spread = None, size * one + variance_by_hand(bound.noise)
        if attack == "diagonal":
            return lambda values: self._sum(shift / spread * values)
        likely = trace - p
        return lambda values: self._sum(likely / spread * (values - mean - likely / 2))

    def _sum(self, evidence):
        return evidence.reshape(len(evidence), -1)[:, self.seen].sum(axis=1)

    def _fitted(self, bound, law, trace, values):
        """Let the attack itself score, on the cells where anybody was."""
        flat = values.reshape(len(values), -1)[:, self.seen][:, None, :]
        if bound.noise == NO_NOISE:
            flat = flat.astype(np.int32)
        release = Release(flat, self.setting.group_size, bound.label, bound.noise, law)
        training = Examples(release, np.arange(len(flat)) % 2 == 0, np.arange(len(flat)))
        own = np.flatnonzero(trace.ravel()[self.seen])
        seen = self.dense.sum(axis=0, dtype=np.int32).ravel()[self.seen][None, :]
        knowledge = Knowledge(training, TargetKnowledge(own, True, seen, len(self.dense)))
        found = create("likelihood").fit(knowledge, rng=RNG).score(release)
        return np.maximum(found, -1e6)


def variance_by_hand(noise):
    match noise:
        case LaplaceNoise(scale):
            return 2 * scale**2
        case GaussianNoise(scale):
            return scale**2
        case DiscreteLaplaceNoise(scale):
            return 0.5 / np.sinh(0.5 / scale) ** 2
    assert noise == NO_NOISE
    return 0


def auc_of_pairs(inside, outside, near=0.0):
    """Count pairs of different groups, one by one: least and most, where near ones may tie."""
    n = len(inside)
    pairs = [inside[i] - outside[j] for i in range(n) for j in range(n) if i != j]
    least = sum((gap > near) + (gap == near == 0) / 2 for gap in pairs)
    most = sum((gap >= -near) if near else (gap > 0) + (gap == 0) / 2 for gap in pairs)
    return least / len(pairs), most / len(pairs)
