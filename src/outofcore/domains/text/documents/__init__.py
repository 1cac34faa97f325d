"""From raw files to the text of documents: units in the driver, documents in the workers."""
