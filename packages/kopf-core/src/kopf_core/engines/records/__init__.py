"""The parts of the record of an object: immutable values, and the pure changes of them."""
