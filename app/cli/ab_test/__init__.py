"""`sirocco readout`."""
