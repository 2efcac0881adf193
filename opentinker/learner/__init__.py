"""From batches to new weights: one frozen base in memory, an adapter and an optimizer a policy."""
