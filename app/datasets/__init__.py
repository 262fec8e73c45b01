"""Readers of logs: Parquet, CSV and TSV files as checked columns."""
