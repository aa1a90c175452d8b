"""How files are read, for records and published tables alike.

================ ===============================================================
sources          files, pieces of them, and errors of the libraries that read them
tables           rows of CSV and Parquet
geojson          features of GeoJSON
decode           numbers, names and times
places           the identity of places: pairs, codes, and names that do not match
================ ===============================================================
"""
