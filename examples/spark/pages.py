"""Prints for each HTML page of a crawl: the pages that link to it, its bytes, its URL and its title."""

import io
import re
import sys

from pyspark.sql import SparkSession
from warcio.archiveiterator import ArchiveIterator

crawl = sys.argv[1]
spark = SparkSession.builder.appName("pages").getOrCreate()
spark.read.parquet(crawl + "/tables/cc-index/table/cc-main/warc").createOrReplaceTempView("ccindex")
spark.read.parquet(crawl + "/tables/links").createOrReplaceTempView("links")


def read(rows):
    for row in rows:
        with open(row.warc_filename, "rb") as file:
            file.seek(row.warc_record_offset)
            record = next(ArchiveIterator(io.BytesIO(file.read(row.warc_record_length))))
        body = record.content_stream().read()
        title = re.search(b"(?is)<title[^>]*>(.*?)</title>", body)
        yield row.url, len(body), " ".join(title[1].decode("utf-8", "replace").split()) if title else ""


selected = spark.sql("""
    SELECT url, warc_filename, warc_record_offset, warc_record_length FROM ccindex
    WHERE subset = 'warc' AND content_mime_detected = 'text/html'""")
selected.rdd.mapPartitions(read).toDF("url STRING, bytes LONG, title STRING").createOrReplaceTempView("pages")
answer = spark.sql("""
    SELECT count(DISTINCT source) AS pages, bytes, url, title
    FROM pages LEFT JOIN links ON target = url GROUP BY url, bytes, title ORDER BY pages DESC, url""")
for row in answer.collect():
    print(*row, sep="\t")
