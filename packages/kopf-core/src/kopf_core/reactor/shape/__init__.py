"""The shape of the cluster: its kinds and namespaces, and the streams that follow from them."""
