"""Access: who may do what, by the roles and their bindings."""
