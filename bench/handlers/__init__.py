"""The operators under the bench. They use only what both generations have."""
