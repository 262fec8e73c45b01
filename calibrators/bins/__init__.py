"""Bins, the additive sufficient statistics that every calibrator is fitted from."""
