"""The spine: how every analysis is identified, run, resumed, kept and watched."""

from clusterscale.study.identity import Identity

__all__ = ["Identity"]
