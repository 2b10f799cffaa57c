"""The client of Kubernetes APIs: requests, lists, watches, patches, discovery, authentication."""
