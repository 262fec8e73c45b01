"""Ad auctions of a search engine, run again: what another model or setting would earn.

`gsp.py` is the auction, `search_log.py` the log, `simulation.py` runs it again with other scores,
at any operating point, `click_curve.py` and `click_estimates.py` say what would be clicked,
`comparison.py` what follows. `search_platform.py` makes logs whose truth is known.
"""
