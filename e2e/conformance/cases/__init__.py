"""The behaviours, a module an area; the numbers in the names give the order in the table."""
