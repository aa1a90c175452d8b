"""What is done to counts before they are published.

==================== ================================================ =========================
name                 what it does                                     source
==================== ================================================ =========================
exact                nothing
laplace              Laplace noise on counts, or two-sided geometric  NDSS18 §VII-A, PETS17 §5.2
gaussian             normal noise on counts                           NDSS18 §VII-A
fourier              noise on the first Fourier coefficients          NDSS18 §VII-A (FPA)
enhanced_fourier     noise on as many cosines as the data ask for     NDSS18 §VII-A (EFPAG)
randomized_response  members say yes by chance                        PETS17 §5.3 (SpotMe)
perturb_small        noise on small counts                            POMACS20 §4.2.3 (PSC)
suppress_small       zero for small counts                            POMACS20 §4.2.2 (SSC)
suppress_unpopular   zero in quiet places at quiet times              POMACS20 §4.2.2 (SLP)
sample_events        only some events are counted                     POMACS20 §4.2.2 (SMP)
sample_traces        the same, drawn once for all releases            POMACS20 §4.2.2
fixed_ranges         a range of fixed size                            POMACS20 §4.2.1 (DGFR)
adaptive_ranges      a few ranges for each place                      POMACS20 §4.2.1 (DGAR)
coarsen_space        places are merged                                POMACS20 §4.2.1 (SPG)
coarsen_time         epochs are merged                                POMACS20 §4.2.1 (TG)
cap_contributions    so many events a user and day                    POPETS24 §6.2
chain                several of these in order                        POMACS20 §4.2.4
truncated_laplace    noise that breaks its promise, to test auditors  a fault of published code
unscaled_fourier     FPA with too little noise, as it was published   POMACS20 tables 22, 26
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

from clusterscale.contracts import Mechanism
from clusterscale.mechanisms.accounting import UserLevel, user_level
from clusterscale.mechanisms.base import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.mechanisms.catalogue import STEPS
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.mean_response import Response, respond
from clusterscale.mechanisms.trace_steps import group_by_trace_steps
from clusterscale.registry import Registry

__all__ = ["FLOAT_NOISE_REMEDY", "FLOAT_NOISE_RISK", "MECHANISMS", "Response", "UserLevel"]
__all__ += ["create", "group_by_trace_steps", "respond", "user_level"]

MECHANISMS: Registry[Mechanism] = Registry("mechanism", Chain, *STEPS.classes)
create = MECHANISMS.create
