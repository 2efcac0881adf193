"""Commands of `opentinker` about envs, agents and protocols: what there is, is it sound, play."""
