"""A campaign of kills against a running Perdure, and the proof that nothing acknowledged was lost or repeated."""
