"""One page on what ran: the pipeline, the stores with samples, costs and results."""
