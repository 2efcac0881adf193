"""Runs jobs: places workers on Ray, and drives the way of the data from match to publish."""
