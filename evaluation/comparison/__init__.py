"""Two models on the same impressions: which is better, and how sure that is."""
