"""Runs the queries of files on a table of the index: queries.py ENGINE TABLE FILE.sql...

It prints a JSON object for each file: its name, and the rows of its last statement or the error. The table is
"ccindex"."ccindex", as at Common Crawl. A list of ranked domains is "ccindex"."alexa_top_1m".
"""

import json
import os
import re
import sys

engine, table, files = sys.argv[1], sys.argv[2], sys.argv[3:]
ranks = "SELECT 'example.org' AS site, 'example.org' AS domain, 1 AS rank"

if engine == "duckdb":
    import duckdb

    duckdb.sql("CREATE SCHEMA ccindex")
    duckdb.sql("CREATE VIEW ccindex.ccindex AS SELECT * FROM read_parquet('%s/*/*/*.parquet', "
               "hive_partitioning = true)" % table)
    duckdb.sql("CREATE TABLE ccindex.alexa_top_1m AS " + ranks)
    duckdb.sql("USE ccindex")

    def run(query):
        answer = duckdb.sql(query)
        return answer.fetchall() if answer is not None else []
else:
    from pyspark.sql import SparkSession

    # SQL as in Athena: names in double quotes, and strings without escapes.
    spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
             .config("spark.sql.shuffle.partitions", "1")
             .config("spark.sql.ansi.enabled", "true").config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
             .config("spark.sql.parser.escapedStringLiterals", "true").getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    spark.sql("CREATE DATABASE ccindex")
    spark.sql("USE ccindex")
    spark.sql("CREATE VIEW ccindex AS SELECT * FROM parquet.`%s`" % os.path.abspath(table))
    spark.sql("CREATE VIEW alexa_top_1m AS " + ranks)

    def run(query):
        return [tuple(row) for row in spark.sql(query).collect()]


for file in files:
    text = re.sub(r"(?m)(^|\s)--.*$", "", open(file).read())
    said = {"name": os.path.basename(file)}
    try:
        for query in filter(str.strip, text.split(";")):
            said["rows"] = run(query)
    except Exception as err:
        said["error"] = " ".join(str(err).split())[:120]
    print(json.dumps(said, default=str))
