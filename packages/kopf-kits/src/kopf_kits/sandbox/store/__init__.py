"""Resources and their objects: the stored ones, and their preparation for that."""
