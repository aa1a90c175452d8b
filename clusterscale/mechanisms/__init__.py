"""Privacy mechanisms: transformations of counts before publication.

==================== ================================================ =========================
name                 effect                                           source
==================== ================================================ =========================
exact                publishes the counts unchanged
laplace              Laplace noise on counts, or two-sided geometric  NDSS18 §VII-A, PETS17 §5.2
gaussian             normal noise on counts                           NDSS18 §VII-A
fourier              noise on the first Fourier coefficients          NDSS18 §VII-A (FPA)
enhanced_fourier     noise on a data-dependent number of cosines      NDSS18 §VII-A (EFPAG)
randomized_response  absent members answer yes at random              PETS17 §5.3 (SpotMe)
perturb_small        noise on small counts                            POMACS20 §4.2.3 (PSC)
suppress_small       small counts set to 0                            POMACS20 §4.2.2 (SSC)
suppress_unpopular   the quietest ROIs set to 0 in the quietest epochsPOMACS20 §4.2.2 (SLP)
sample_events        counts a random sample of the events             POMACS20 §4.2.2 (SMP)
sample_traces        the same, sampled once for all releases          POMACS20 §4.2.2
fixed_ranges         counts replaced by ranges of fixed size          POMACS20 §4.2.1 (DGFR)
adaptive_ranges      counts replaced by a few ranges per ROI          POMACS20 §4.2.1 (DGAR)
threshold            small counts hidden, or published as "<k"
dominance            cells hidden that few people dominate            Hundepool et al. 2012
round_to_base        multiples of a base, at random or the nearest    Fellegi 1975
cell_key             perturbations that depend on who is in a cell    Giessing 2016
expand               counts multiplied up to a population
top_code             large counts published as one value
bottom_code          small counts published as one value
share_of_total       shares of the sum instead of counts
coarsen_space        ROIs are merged                                  POMACS20 §4.2.1 (SPG)
coarsen_time         epochs are merged                                POMACS20 §4.2.1 (TG)
cap_contributions    at most n events per user and day                POPETS24 §6.2
chain                several of these in sequence                     POMACS20 §4.2.4
tables               several tables together, each by one of these
truncated_laplace    violates its declared ε, to test audits          a bug in published code
unscaled_fourier     FPA with too little noise, as published          POMACS20 tables 22, 26
==================== ================================================ =========================

>>> import numpy as np
>>> from clusterscale import mechanisms
>>> counts = np.array([[3, 0], [1, 7]], dtype=np.int32)
>>> noisy = mechanisms.create("laplace", epsilon=1.0, unit="event")
>>> noisy.release(counts, group_size=10, rng=np.random.default_rng(1)).shape
(2, 2)
>>> mechanisms.create("gaussian", epsilon=10.0, delta=0.1).guarantee.epsilon.__round__(1)
12.7
"""

from clusterscale.mechanisms.accounting import UserLevel, user_level
from clusterscale.mechanisms.base import (
    FLOAT_NOISE_REMEDY,
    FLOAT_NOISE_RISK,
    MECHANISMS,
    group_by_trace_steps,
)
from clusterscale.mechanisms.law import Response, respond

create = MECHANISMS.create
