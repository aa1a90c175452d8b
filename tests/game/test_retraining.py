"""An adversary who learns from a release: what it is shown, how often, and what comes of that."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from loops import mostly_slow

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import Bounds, GroupRequest, GroupSample, TargetKnowledge, publish
from clusterscale.game import AttackEvaluation
from clusterscale.metrics import auc
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary
from clusterscale.seeds import stream

SIZE, TARGET = 6, 5
PRIOR = priors.create("known_subset", alpha=0.5, training=4, challenges=20)
EXACT = mechanisms.create("exact")
NOISY = mechanisms.create("laplace", epsilon=20.0, unit="user_day")
BOUNDS = Bounds(event=1, user_day=4, user=40, series=10, rois=8, null_roi=False)
SPECTRAL, FOREST = attacks.create("spectral"), attacks.create("forest", trees=5)
PATH = ("day", 1)


@dataclass(frozen=True)
class Guesser:
    """Takes each hour and each place to be as busy as one release says, and adds the target."""

    trace: np.ndarray
    retrains_per_release: bool = True
    studied: list = field(default_factory=list)

    def study(self, release, mechanism, *, rng):
        values, shape = release.values[0], (32, *release.values.shape[1:])
        self.studied.append((release, mechanism, rng.random()))
        rows, columns = (np.maximum(values.sum(axis=axis), 0.1) for axis in (1, 0))
        share = np.clip(np.outer(rows, columns) / rows.sum() / SIZE, 0, 1)
        counts = rng.binomial(SIZE - 1, share, shape).astype(np.int32)
        labels = np.arange(len(counts)) % 2 == 0
        counts.reshape(len(counts), -1)[np.ix_(labels, self.trace)] += 1
        places = TargetKnowledge(self.trace, True, np.rint(100 * share).astype(np.int32), 100)
        own = AuxiliaryDataAdversary(
            SIZE, GroupSample(counts, labels, np.arange(len(counts))), places
        )
        return own.study(None, mechanism, rng=rng)

    @property
    def draws(self):
        """The first draw of the generator of each study."""
        return [draw for _, _, draw in self.studied]


def set_up(cube, *, retrains_per_release=True, target=TARGET):
    traces = cube.traces()
    streams = {use: stream(0, use, target) for use in ("control", "more")}
    rng = stream(0, "groups", target)
    drawn = PRIOR.set_up(GroupRequest(traces, target, group_size=SIZE, rng=rng, **streams))
    return replace(drawn, adversary=Guesser(traces.trace(target), retrains_per_release))


def contend(game, mechanism=EXACT, tried=(SPECTRAL, FOREST), **options):
    settings = {"seed": 3, "path": PATH, "bounds": BOUNDS, "control": False} | options
    return AttackEvaluation(game, mechanism, tried, **settings)


def told(evaluation):
    return [replace(outcome, seconds=0.0) for outcome in evaluation.outcomes()]


def published(sample, mechanism, use="challenge"):
    noise = stream(3, "noise", *PATH, mechanism.id, use)
    return publish(sample.counts, mechanism.bind(BOUNDS), group_size=SIZE, rng=noise)


def judge(game, mechanism, attack, release, *path):
    """Score a release group by group, as learnt from that group's release alone."""
    scores = []
    for row in range(len(release.values)):
        place = (*PATH, mechanism.id)
        one = release.take([row])
        noise = stream(3, "noise", *place, "training", *path, row)
        knowledge = game.adversary.study(one, mechanism.bind(BOUNDS), rng=noise)
        rng = stream(3, "attack", *place, attack.id, *path, row)
        scores.append(attack.fit(knowledge, rng=rng).score(one)[0])
    return np.array(scores)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [EXACT, NOISY])
def test_each_release_is_studied_once_alone_and_with_what_published_it(cube, mechanism):
    game = set_up(cube)
    contend(game, mechanism)
    whole = published(game.challenge, mechanism)
    studied = game.adversary.studied
    assert len(studied) == len(game.challenge)
    for row, (release, described, _) in enumerate(studied):
        np.testing.assert_array_equal(release.values, whole.values[row : row + 1])
        own = memoryview(release.values.base).nbytes
        assert own == release.values.nbytes, "no way from there to the releases of others"
        assert (release.group_size, release.noise) == (SIZE, whole.noise)
        assert described == mechanism.bind(BOUNDS)
    assert NOISY.bind(BOUNDS) != NOISY
    assert len(set(game.adversary.draws)) == len(studied)


@mostly_slow("attack", [SPECTRAL, FOREST])
def test_scores_are_those_of_attacks_trained_by_hand(cube, attack):
    game = set_up(cube)
    (outcome,) = contend(game, NOISY, [attack], control=True).outcomes()
    labels, asked = game.challenge.labels, published(game.challenge, NOISY)
    scores = judge(game, NOISY, attack, asked)
    assert outcome.auc == auc(labels, scores)
    absent = judge(game, NOISY, attack, published(game.absent, NOISY, "absent"), "absent")
    stands_in = np.arange(20) < 10
    assert outcome.absent_auc == auc(stands_in, np.concatenate([absent, scores[~labels]]))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_and_another_does_not(cube):
    first, again, other = (
        told(contend(set_up(cube), NOISY, seed=seed, control=True)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.slow
def test_one_attack_alone_finds_what_it_finds_in_company(cube):
    together = told(contend(set_up(cube), NOISY, control=True))
    alone = [
        *told(contend(set_up(cube), NOISY, [FOREST], control=True)),
        *told(contend(set_up(cube), NOISY, [SPECTRAL], control=True)),
    ]
    assert together == alone[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("control", [True, False])
def test_more_challenges_go_on_where_the_first_ended(cube, control):
    """Asked in three goes or in one: the same releases, the same draws, the same answers."""
    game, at_once = set_up(cube), set_up(cube)
    evaluation = contend(game, NOISY, control=control)
    before = [replace(outcome, seconds=0.0) for outcome in evaluation.outcomes()]
    for n in (6, 10):
        evaluation.add_challenges(game.more(n))
    more = at_once.more(16)
    all_asked = [at_once.challenge, more]
    challenge = GroupSample(*(
        np.concatenate([getattr(each, name) for each in all_asked])
        for name in ("counts", "labels", "blocks")
    ))  # fmt: skip
    whole = contend(replace(at_once, challenge=challenge), NOISY)
    for one, other in zip(evaluation.outcomes(), whole.outcomes(), strict=True):
        assert one.n_challenges == other.n_challenges == 36
        for name in ("auc", "auc_low", "auc_high", "accuracy", "tpr", "epsilon_lower"):
            assert getattr(one, name) == getattr(other, name)
    for one, other in zip(evaluation.outcomes(), before, strict=True):
        assert (one.level_inside, one.level_outside) == (other.level_inside, other.level_outside)
        np.testing.assert_equal((one.control_auc, one.absent_auc),
                                (other.control_auc, other.absent_auc))  # fmt: skip
    place = (*PATH, NOISY.id, "training")
    numbered = [stream(3, "noise", *place, i).random() for i in range(36)]
    absent = [stream(3, "noise", *place, "absent", i).random() for i in range(10 * control)]
    assert at_once.adversary.draws == numbered
    assert game.adversary.draws == numbered[:20] + absent + numbered[20:]


@mostly_slow("retrains_per_release", [True, False])
def test_controls_change_nothing_else(cube, retrains_per_release):
    found = []
    for control in (True, False):
        game = set_up(cube, retrains_per_release=retrains_per_release)
        evaluation = contend(game, NOISY, control=control)
        evaluation.add_challenges(game.more(8))
        found.append(told(evaluation))
    nothing = {name: np.nan for name in ("control_auc", "absent_auc", "naive_auc")}
    for with_control, without in zip(*found, strict=True):
        assert all(np.isfinite(getattr(with_control, name)) for name in nothing)
        np.testing.assert_equal(repr(replace(with_control, **nothing)), repr(without))


@pytest.mark.slow
@pytest.mark.parametrize("retrains_per_release", [True, False])
def test_the_target_is_found_and_nobody_in_its_place(cube, retrains_per_release):
    found, label_shuffled, absent = [], [], []
    for target in range(0, 60, 2):
        game, path = (
            set_up(cube, retrains_per_release=retrains_per_release, target=target),
            (*PATH, target),
        )
        evaluation = contend(game, tried=[SPECTRAL], control=True, path=path)
        (outcome,) = evaluation.outcomes()
        found.append(outcome.auc)
        label_shuffled.append(outcome.control_auc)
        absent.append(outcome.absent_auc)
    # Four standard errors of the mean: a sound control fails one seed in 16,000.
    for name, aucs, told_apart in (
        ("found", found, True), ("misled", label_shuffled, False), ("absent", absent, False)
    ):  # fmt: skip
        error = 4 * np.std(aucs, ddof=1) / np.sqrt(len(aucs))
        assert (np.mean(aucs) - 0.5 > error) == told_apart, name
        assert told_apart or np.mean(aucs) - 0.5 > -error, name


@pytest.mark.parametrize("control", [True, False])
def test_who_does_not_refit_is_shown_exactly_one(cube, control):
    shown = []
    for seed in range(8):
        game = set_up(cube, retrains_per_release=False)
        evaluation = contend(game, seed=seed, control=control)
        evaluation.add_challenges(game.more(4))
        assert next(evaluation.outcomes()).n_challenges == 24
        ((release, described, draw),) = game.adversary.studied
        assert described == EXACT
        assert draw == stream(seed, "noise", *PATH, EXACT.id, "training").random()
        assert release.values.shape == game.challenge.counts[:1].shape
        assert memoryview(release.values.base).nbytes == release.values.nbytes  # and no more
        same = (release.values == game.challenge.counts).all(axis=(1, 2))
        shown.append(int(np.flatnonzero(same).item()))
    assert set(shown) == {0, 1}, "one with the target, or one without"


@pytest.mark.slow
def test_what_it_knows_of_users_held_apart_is_added(cube):
    """Their traces follow; what groups count for is added beside it."""

    class Held(Guesser):
        def plus(self, other):
            return Held(np.concatenate([self.trace, other.trace]), self.retrains_per_release)

    game = set_up(cube)
    trace = game.adversary.trace
    halves = [replace(game, adversary=Held(part), more=None) for part in np.split(trace, [3])]
    whole = halves[0].plus(halves[1])
    np.testing.assert_array_equal(whole.adversary.trace, trace)
    for name in ("challenge", "absent"):
        counted, once = getattr(whole, name), getattr(game, name)
        np.testing.assert_array_equal(counted.counts, 2 * once.counts)
        np.testing.assert_array_equal(counted.labels, once.labels)
