"""The method leaderboard and the experiments of the papers; not part of the installed product."""
