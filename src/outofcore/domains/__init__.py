"""One folder for each kind of data, and the seam that they share."""
