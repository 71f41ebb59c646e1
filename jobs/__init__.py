"""What is worked out: the turn and its context, and the models behind their protocols. No Ray."""
