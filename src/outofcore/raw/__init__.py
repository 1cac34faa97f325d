"""Raw input: finding files, reading through compression and archives, and the units that workers convert."""
