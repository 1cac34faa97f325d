"""A project: the files that ``outofcore init`` writes, its domains, and the digest of the code that it runs."""
