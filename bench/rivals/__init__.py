"""Other libraries next to this one: compared before a release, in an environment of their own (``peers.txt``)."""
