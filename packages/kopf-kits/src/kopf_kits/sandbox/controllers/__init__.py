"""Controllers that operators rely on."""
