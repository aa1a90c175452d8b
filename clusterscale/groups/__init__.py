"""Groups of users: draw members, count their visits, and sum the weights of the visitors."""

from clusterscale.groups.count import Counter, add_idle, count_visits, subsample_trace, sum_weights
from clusterscale.groups.draw import SLICE_BYTES, Pool, Rows, check_lists, check_pool, draw_members
