"""Block bootstrap: how far chance alone moves a metric."""
