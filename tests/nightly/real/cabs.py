"""The San Francisco cabs as a cube, for tests and for scripts."""

from pathlib import Path

from clusterscale.cube import Calendar, Grid, TraceCube

BOX = (37.7282, -122.4528, 37.8021, -122.3637)
HOURS = 504


def ingest_cabs(data: Path, uri: str) -> TraceCube:
    """Write the raw fixes in the folder ``data`` as a cube: 534 cabs, 100 ROIs, three weeks."""
    from clusterscale.ingestion import READERS, IngestOptions, ingest  # needs dask

    ingest(
        str(data / "sfcabs.parquet"),
        uri,
        IngestOptions(
            reader=READERS.create("events"),
            locator=Grid.parse(",".join(map(str, BOX)) + "/10x10"),
            calendar=Calendar.parse("2008-05-19T00:00", "1h", HOURS, "America/Los_Angeles"),
        ),
    )
    return TraceCube(uri)
