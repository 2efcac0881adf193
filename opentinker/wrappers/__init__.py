"""Games written by others, by name: OpenSpiel, TextArena, Gymnasium and reasoning-gym as text envs.

Each library is loaded when a game of it is asked for; `extras` says how to install a missing one.
"""
