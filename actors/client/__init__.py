"""The driver's side: handles whose calls reach the actors, retry what may be retried, and raise our errors."""
