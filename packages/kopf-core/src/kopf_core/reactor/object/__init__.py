"""One object: its turns, the decision in each of them, its handling, and its patches."""
