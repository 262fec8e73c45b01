"""Results in files, on the terminal, and as docs/benchmarks.md."""
