"""The HTTP side: from requests to responses."""
