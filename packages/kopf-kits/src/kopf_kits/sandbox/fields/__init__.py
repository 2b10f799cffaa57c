"""Changes of objects: patches, and who set which fields."""
