"""Groups of users: draw who is inside, count where they were."""

from clusterscale.groups.count import count_visits, forget, mean_trace, replace_member
from clusterscale.groups.draw import Pool, check_pool, draw_groups, largest_group

__all__ = [
    "Pool",
    "check_pool",
    "count_visits",
    "draw_groups",
    "forget",
    "largest_group",
    "mean_trace",
    "replace_member",
]
