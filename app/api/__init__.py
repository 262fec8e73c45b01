"""HTTP: thin translation between requests and the calibration maps, the event log and the jobs."""
