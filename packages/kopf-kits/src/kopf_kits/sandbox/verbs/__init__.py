"""What can be done with objects: reading, watching, writing, deleting."""
