"""A stand-in for Spark, which is too large to install for one test. It does the same with lists: it shows that the
functions of a program read an archive, not that Spark runs them."""

import collections
import json


class Rows(list):
    def toDF(self, names):
        return Rows(dict(zip(names, row, strict=True)) for row in self)

    def mapPartitions(self, function):
        return Rows(function(iter(self)))

    def groupBy(self, column):
        return Groups(self, column)


class Groups:
    def __init__(self, rows, column):
        self.rows, self.column, self.sums = rows, column, collections.Counter()

    def sum(self, column):
        for row in self.rows:
            self.sums[row[self.column]] += row[column]
        return self

    def count(self):
        self.sums.update(row[self.column] for row in self.rows)
        return self

    def show(self):
        for key, n in self.sums.items():
            print(f"|{key}|{n}|")


class SparkSession:
    @property
    def sparkContext(self):
        return self

    read = sparkContext

    def getOrCreate(self):
        return self

    def parallelize(self, items, partitions):
        return Rows(items)

    def schema(self, fields):
        return self

    def json(self, name):
        with open(name) as lines:
            return Rows(json.loads(line) for line in lines)


SparkSession.builder = SparkSession()
