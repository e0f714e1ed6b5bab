"""Runs the queries of a file, and prints their answers as tab-separated lines."""

import sys

import duckdb

for query in duckdb.extract_statements(open(sys.argv[1]).read()):
    answer = duckdb.sql(query)
    print(*answer.columns, sep="\t")
    for row in answer.fetchall():
        print(*row, sep="\t")
    print()
