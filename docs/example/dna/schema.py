"""What a store of DNA holds."""

from outofcore.store.schema import Field, Schema

BASES = "ACGTN"
SCHEMA = Schema(
    rows=(Field(name="bases", dtype="uint8", doc=f"0 to 4: {', '.join(BASES)}"),),
    sequences=(Field(name="header", dtype="string", fill="", doc="the line that begins with >"),),
)
