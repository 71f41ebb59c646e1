"""The tests; run `make test`."""
