"""What is known: records, errors, settings, and the stores that keep them. No Ray, no model."""
