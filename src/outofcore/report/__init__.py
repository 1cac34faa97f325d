"""One page that shows what ran: the pipeline, the stores, samples of them, what it cost and what came of it."""
