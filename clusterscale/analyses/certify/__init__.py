"""Certificates: the best that any adversary can do against one person.

An attack that fails proves nothing. A certificate bounds all attacks: the adversary knows
everything but whether the person is inside.
"""

from clusterscale.analyses.certify.analysis import CertifyAnalysis
from clusterscale.analyses.certify.basis import Visits
from clusterscale.analyses.certify.ceilings import ceiling, compose
from clusterscale.analyses.certify.plan import CERTIFICATES, Certification, CertifyPlan
