"""Exact accounting of noisy integer sums: δ(ε) from above and below, and the least noise that will do."""
