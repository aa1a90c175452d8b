"""Errors of recovery on the San Francisco cabs: two weeks observed, the third inferred, base e.

``PAPER``: means over users that PETS17 §4 and appendix A state in words. ``AGAIN``: an independent
re-computation on the same fixes. Both by (goal, prior, strategy); ``popular`` and ``every`` are
readings of the prior alone.
"""

PAPER = {
    ("profiling", "freq_roi", "prior"): 0.65,
    ("profiling", "freq_roi", "bayes"): 0.62,
    ("profiling", "freq_roi", "max_roi"): 0.71,
    ("profiling", "freq_roi", "max_user"): 0.56,
    ("profiling", "roi_day", "prior"): 0.63,
    ("profiling", "roi_day_week", "prior"): 0.61,
    ("profiling", "time_day", "prior"): 0.73,
    ("profiling", "time_day_week", "prior"): 0.66,
    ("profiling", "last_week", "prior"): 0.67,
    ("profiling", "last_day", "prior"): 0.63,
    ("profiling", "last_hour", "prior"): 0.53,
    ("localization", "freq_roi", "popular"): 0.90,
    ("localization", "freq_roi", "every"): 0.83,
    ("localization", "freq_roi", "max_roi"): 0.76,
    ("localization", "freq_roi", "max_user"): 0.74,
    ("localization", "roi_day_week", "popular"): 0.90,
    ("localization", "roi_day_week", "every"): 0.71,
    ("localization", "time_day_week", "every"): 0.84,
    ("localization", "last_week", "every"): 0.73,
    ("localization", "last_day", "every"): 0.71,
    ("localization", "last_hour", "every"): 0.64,
}

LOSSES = {  # mean privacy losses, PETS17's
    ("profiling", "freq_roi", "bayes"): 0.06,
    ("profiling", "freq_roi", "max_user"): 0.16,
    ("profiling", "roi_day", "bayes"): 0.06,
    ("profiling", "roi_day", "max_user"): 0.13,
    ("profiling", "roi_day_week", "bayes"): 0.03,
    ("profiling", "roi_day_week", "max_user"): 0.07,
    ("profiling", "time_day", "bayes"): 0.10,
    ("profiling", "time_day", "max_roi"): 0.16,
    ("profiling", "time_day", "max_user"): 0.22,
    ("profiling", "time_day_week", "bayes"): 0.09,
    ("profiling", "time_day_week", "max_roi"): 0.10,
    ("profiling", "time_day_week", "max_user"): 0.20,
    ("localization", "freq_roi", "max_roi"): 0.08,
    ("localization", "freq_roi", "max_user"): 0.11,
    ("localization", "time_day_week", "max_roi"): 0.09,
}

AGAIN = {
    ("profiling", "freq_roi", "prior"): (0.66, 0.66),
    ("profiling", "freq_roi", "release"): (0.67, 0.67),
    ("profiling", "freq_roi", "bayes"): (0.62, 0.62),
    ("profiling", "freq_roi", "max_roi"): (0.69, 0.72),
    ("profiling", "freq_roi", "max_user"): (0.57, 0.57),
    ("profiling", "roi_day", "prior"): (0.63, 0.63),
    ("profiling", "roi_day", "bayes"): (0.60, 0.60),
    ("profiling", "roi_day_week", "prior"): (0.61, 0.61),
    ("profiling", "roi_day_week", "bayes"): (0.59, 0.59),
    ("profiling", "roi_day_week", "max_user"): (0.58, 0.58),
    ("profiling", "last_hour", "prior"): (0.53, 0.53),
    ("localization", "freq_roi", "every"): (0.81, 0.81),
    ("localization", "freq_roi", "max_roi"): (0.74, 0.77),
    ("localization", "freq_roi", "max_user"): (0.78, 0.78),
    ("localization", "roi_day_week", "every"): (0.70, 0.70),
    ("localization", "last_week", "every"): (0.73, 0.73),
    ("localization", "last_day", "every"): (0.72, 0.72),
    ("localization", "last_hour", "every"): (0.64, 0.64),
}
