"""The kinds that are served: built-in ones and definitions of custom ones."""
