"""Other libraries and servers, each in an environment of its own, which the benchmark makes.

`environment(name)` is the Python of `.peers/<name>` in the checkout. The first time it installs the
pinned versions of benchmarks/peers/<name>.txt, which takes minutes; later it only looks. What
cannot be installed raises `NotInstalled`, and the benchmark says so in its table.

Calibration libraries are called through `PeerCalibrator`, in a child process that times itself:

    from benchmarks.peers.calibrator import PeerCalibrator
    from benchmarks.peers.environments import NotInstalled

    try:
        with PeerCalibrator("netcal") as peer:
            seconds = peer.fit("isotonic", scores, outcomes)
            seconds, probabilities = peer.look_up(scores)
    except NotInstalled as error:
        row["netcal"] = str(error)

Methods are "bbq", "isotonic" and "beta" of netcal, and "beta" of betacal. A cell may be a text, so
the reason can stand where the figure would.
"""
