"""The end-to-end tests: the same tests on an emulated and on real clusters."""
