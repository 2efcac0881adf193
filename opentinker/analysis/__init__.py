"""What a run is worth, found out from outside it."""
