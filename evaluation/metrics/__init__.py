"""Every metric on checked predictions: calibration, loss, ranking, revenue."""
