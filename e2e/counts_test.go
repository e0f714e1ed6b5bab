package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// countAll counts a crawl by the records (warcio), the indexes, the manifests, the tables (DuckDB), crawl.log and
// summary.json, and compares the counts. Its arguments are the crawl directory and the store.
const countAll = `import collections, glob, gzip, json, sys
import duckdb
from warcio.archiveiterator import ArchiveIterator
crawl, store = sys.argv[1:]
Counter = collections.Counter

def same(name, got, than, want):
    assert got == want, f"{name} has {got - want}, {than} has {want - got}"

records, indexes, manifests, parts = Counter(), Counter(), Counter(), Counter()
for manifest in glob.glob(store + "/crawl-data/*/segments/*/manifest.json"):
    folder = manifest[:-len("manifest.json")]
    open(folder + "_SUCCESS").close()
    for f in json.load(open(manifest))["files"]:
        if not f["name"].endswith(".warc.gz"):
            continue
        subset = f["name"].split("/")[0]
        manifests[subset] += f["records"]
        with open(folder + f["name"], "rb") as stream:
            for r in ArchiveIterator(stream):
                if r.rec_type in ("response", "revisit", "resource"):
                    at = r.rec_headers["WARC-Date"].translate({ord(c): "" for c in "-:TZ"})[:14]
                    records[r.rec_headers["WARC-Target-URI"], at, subset] += 1
    for line in open(folder + "index.cdxj"):
        surt, at, fields = line.split(" ", 2)
        fields = json.loads(fields)
        indexes[fields["url"], at, fields["filename"].split("/")[-2]] += 1
    for log in glob.glob(folder + "logs/crawl.log.gz"):
        parts.update(gzip.open(log, "rt", newline="\n").readlines())
lines = open(crawl + "/logs/crawl.log", newline="\n").readlines()
table = Counter({row[:3]: row[3] for row in duckdb.sql(f"""
    SELECT url, strftime(fetch_time, '%Y%m%d%H%M%S'), subset, count(*)
    FROM read_parquet('{store}/cc-index/table/cc-main/warc/*/*/*.parquet', hive_partitioning = true)
    GROUP BY ALL""").fetchall()})
logged = Counter({row[:2]: row[2] for row in duckdb.sql(f"""SELECT url, status, count(*)
    FROM read_parquet('{store}/cc-index/table/orbweaver/log/*/*.parquet') GROUP BY ALL""").fetchall()})
archive = sum(1 for _ in open(crawl + "/indexes/index.cdxj"))
same("the indexes", indexes, "the archive", records)
same("the table", table, "the archive", records)
same("the manifests", manifests, "the archive", Counter(subset for _, _, subset in records.elements()))
same("index.cdxj", Counter(lines=archive), "the archive", Counter(lines=records.total()))
same("the segments' logs", parts, "crawl.log", Counter(lines))
last, answered, robots = {}, Counter(), 0
for line in lines:
    f = line.split()
    last[f[3]] = f
    if int(f[1]) > 0:
        answered[f[3], f[8][:14]] += 1
    if f[4].endswith("P"):
        robots += 1
same("the table of the log", logged, "crawl.log", Counter((l.split()[3], int(l.split()[1])) for l in lines))
fetches = Counter()
for (url, at, _), n in records.items():
    fetches[url, at] += n
assert not answered - fetches, f"no record for {answered - fetches}"
for url, at in fetches - answered:
    assert any(u == url and a >= at for u, a in answered), f"{url} {at} has no line, nor a later one"
summary = json.load(open(crawl + "/reports/summary.json"))
ends = [f for f in last.values() if not f[4].endswith("P")]
want = {"urls_finished": len(ends), "fetched": sum(int(f[1]) > 0 for f in ends),
    "duplicates": sum("duplicate:digest" in f[11].split(",") for f in ends),
    "truncated": sum("truncated:" in f[11] for f in ends),
    "robots_denied": sum(f[1] == "-9998" for f in ends)}
same("summary.json", Counter({k: summary[k] for k in want}), "crawl.log", Counter(want))
same("summary.json", Counter(summary["responses_by_status"]), "crawl.log", Counter(f[1] for f in ends))
assert summary["robots_txt"] <= robots, (summary["robots_txt"], robots)
print(len(lines), "lines,", records.total(), "records")
`

// TestCountsKilled kills a crawl that sends its segments to a store at twenty random instants, and continues it. At the
// end the records, the indexes, the manifests, the Parquet tables, crawl.log and the summary agree. Judges that nobody
// here has written count them.
func TestCountsKilled(t *testing.T) {
	testtier.OnlySoak(t, "the gate has TestCountsAgree of package node, on a simulated disk and store")
	weighs(t, 4)
	rng := testseed.Rand(t)
	web, _ := knownWeb(t, testweb.Promise{})
	home := t.TempDir()
	dir, store := filepath.Join(home, "crawl"), filepath.Join(home, "store")
	must.Do(t, os.Mkdir(store, 0o755))
	more := []string{"--store", "file://" + store, "--segment", "1MB", "--quiet"}
	args := flags(t, web, dir, append(append([]string{"--delay", "8ms"}, more...), testweb.DebianSeeds()...)...)
	for kills, n := 0, 0; kills < 20; n++ {
		if n > 60 {
			t.Fatalf("%d runs, %d kills: the crawl is over too early", n, kills)
		}
		p := start(t, args...)
		p.lives(time.Duration(rng.Int64N(int64(2500 * time.Millisecond))))
		if _, killed := p.kill(); killed {
			kills++
		} else if c := p.code(); c != 0 {
			t.Fatalf("exit code %d\n%s", c, tail(p.out.String()))
		}
		if _, err := os.Stat(filepath.Join(dir, "crawl.yaml")); err == nil {
			args = append([]string{"crawl", "--resume", "--dir", dir}, more...)
		}
	}
	crawl(t.Context(), t, args...).must(t, 0)
	t.Log(foreign(t, filepath.Join(venv(t), "bin", "python"), "-W", "ignore", "-c", countAll, dir, store))
}
