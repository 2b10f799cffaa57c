"""The behaviours of the Kubernetes API that operators depend on, as the real server has them."""
