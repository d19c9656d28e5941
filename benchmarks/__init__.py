"""Benchmarks: `python -m benchmarks QUESTION`. Ratios within one run, medians of alternating rounds, with their spread."""
