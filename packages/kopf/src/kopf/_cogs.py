"""Old names of private modules; see :mod:`kopf._aliases`."""

from kopf._aliases import install

install(__name__)
