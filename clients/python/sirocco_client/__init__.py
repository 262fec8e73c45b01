"""Client of the sirocco calibration service."""
