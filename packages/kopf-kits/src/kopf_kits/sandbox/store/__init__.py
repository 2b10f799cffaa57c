"""Resources and their objects: what is stored, and how it is prepared for that."""
