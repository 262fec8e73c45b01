"""The leaderboard of calibrators that know fields (device, placement, advertiser), on synthetic
worlds whose truth is known: `python -m research.leaderboard.fields`.

`platform` has the traffic; a method learns from the hours before and predicts the next (`method`);
`methods` has all of them by name, `scores` what is measured.
"""
