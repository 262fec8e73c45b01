"""Checksums of what is stored, what becomes of what is damaged, and the walk that mends a store."""
