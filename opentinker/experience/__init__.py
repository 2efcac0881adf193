"""From episodes to batches: what is used, what each turn was worth, and how tokens are packed."""
