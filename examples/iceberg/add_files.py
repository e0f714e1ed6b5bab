"""Makes Iceberg tables of the tables of a crawl, and prints how many rows each has."""

import glob
import os
import sys

import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog

os.makedirs("warehouse", exist_ok=True)
place = os.path.abspath("warehouse")
catalog = SqlCatalog("local", uri="sqlite:///" + place + "/catalog.db", warehouse="file://" + place)
catalog.create_namespace_if_not_exists("orbweaver")

tables = os.path.abspath(sys.argv[1] + "/tables")
folders = {name: tables + "/" + name + "/*" for name in ("log", "failures", "links", "hosts")}
for subset in ("warc", "crawldiagnostics", "robotstxt"):
    folders["index_" + subset] = tables + "/cc-index/table/cc-main/warc/*/subset=" + subset
for name, folder in folders.items():
    files = sorted(glob.glob(folder + "/*.parquet"))
    if not files:
        continue
    schema = pyarrow.parquet.read_schema(files[0])
    table = catalog.create_table_if_not_exists("orbweaver." + name, schema=schema)
    table.add_files(files)  # refuses files that the table has
    print(name, table.scan().count(), sep="\t")
