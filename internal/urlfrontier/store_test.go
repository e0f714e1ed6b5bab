package urlfrontier

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

func TestMain(m *testing.M) {
	writtenAtOnce = 3 // so that calls come between the parts of a snapshot
	goleak.VerifyTestMain(m)
}

// start is the time at which the tests begin, in milliseconds.
const start = int64(1_800_000_000_000)

func open(t *testing.T, fs disk.FS, cfg Config) *Store {
	t.Helper()
	s, err := Open(fs, "f", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func discovered(url, key string) *pb.URLItem {
	return &pb.URLItem{Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{
		Info: &pb.URLInfo{Url: url, Key: key}}}}
}

// known is what a client says of a URL that it has fetched. again is in seconds; 0: never.
func known(url, key string, again int64) *pb.URLItem {
	return &pb.URLItem{Item: &pb.URLItem_Known{Known: &pb.KnownURLItem{
		Info: &pb.URLInfo{Url: url, Key: key}, RefetchableFromDate: uint64(again)}}}
}

// must fails the test if a change is not made and durable.
func must(t *testing.T, s *Store, change uint64, err error) {
	t.Helper()
	if err == nil {
		err = s.commit(change)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s *Store, item *pb.URLItem, now int64, want pb.AckMessage_Status) {
	t.Helper()
	got, change, err := s.Put(item, now)
	if must(t, s, change, err); got != want {
		t.Fatalf("put %v: %v, want %v", item, got, want)
	}
}

// take returns the URLs that the store gives, with the keys of their queues.
func take(t *testing.T, s *Store, w Want, now int64) (urls []string) {
	t.Helper()
	taken, change, err := s.Take(w, now)
	must(t, s, change, err)
	for i := range taken {
		info := taken[i].info()
		urls = append(urls, info.Key+" "+info.Url)
	}
	return urls
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

var anyQueue = Want{Any: true, URLs: 10, Queues: 10, Lease: 60}

// A URL is known once in a crawl. It is given once, until its lease ends or the client says what became of it.
func TestLife(t *testing.T) {
	s := open(t, testdisk.NewMem(), Config{})
	put(t, s, discovered("http://a.example/1", ""), start, pb.AckMessage_OK)
	put(t, s, discovered("http://a.example/1", ""), start, pb.AckMessage_SKIPPED)
	put(t, s, discovered("http://a.example/1", "other"), start, pb.AckMessage_SKIPPED)
	put(t, s, discovered("http://a.example/2", ""), start, pb.AckMessage_OK)
	same(t, "first", take(t, s, anyQueue, start), []string{"a.example http://a.example/1", "a.example http://a.example/2"})
	same(t, "leased", take(t, s, anyQueue, start+59_000), nil)
	same(t, "lease over", take(t, s, anyQueue, start+60_000),
		[]string{"a.example http://a.example/1", "a.example http://a.example/2"})
	put(t, s, known("http://a.example/1", "", 0), start+61_000, pb.AckMessage_OK)
	put(t, s, known("http://a.example/2", "", start/1000+100), start+61_000, pb.AckMessage_OK)
	put(t, s, discovered("http://a.example/1", ""), start+62_000, pb.AckMessage_SKIPPED)
	same(t, "too early", take(t, s, anyQueue, start+99_999), nil)
	same(t, "refetched", take(t, s, anyQueue, start+100_000), []string{"a.example http://a.example/2"})
	put(t, s, known("http://a.example/1", "", start/1000), start+101_000, pb.AckMessage_OK)
	same(t, "completed, and then not", take(t, s, anyQueue, start+102_000), []string{"a.example http://a.example/1"})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Put(discovered("http://a.example/3", ""), start); err == nil {
		t.Error("a closed store accepts a URL")
	}
}

// Delay, block and limit hold a queue back, and other queues have their turn. They outlive a restart.
func TestHeldBack(t *testing.T) {
	fs := testdisk.NewMem()
	s := open(t, fs, Config{})
	// The settings of queues that have no URLs yet.
	for key, fn := range map[string]func(*pb.Queue){
		"slow":    func(q *pb.Queue) { d := uint32(100); q.DelayS = &d },
		"blocked": func(q *pb.Queue) { q.BlockedUntilS = uint64(start/1000 + 50) },
		"small":   func(q *pb.Queue) { q.Limit = 1 },
		"free":    func(q *pb.Queue) { d := uint32(0); q.DelayS = &d },
	} {
		change, err := s.set("", key, fn)
		must(t, s, change, err)
	}
	for _, key := range []string{"slow", "blocked", "small", "free", "usual"} {
		for i := range 4 {
			put(t, s, discovered(fmt.Sprintf("http://%s.example/%d", key, i), key), start, pb.AckMessage_OK)
		}
	}
	one := Want{Any: true, URLs: 1, Queues: 10, Lease: 1}
	again := func() { // after a kill
		s.lock.Close()
		fs = fs.Clone()
		s = open(t, fs, Config{})
	}
	again()
	keys := func(now int64) (keys []string) {
		for _, u := range take(t, s, one, now) {
			key, _, _ := strings.Cut(u, " ")
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return keys
	}
	same(t, "at first", keys(start), []string{"free", "slow", "small", "usual"})
	put(t, s, known("http://small.example/0", "small", 0), start, pb.AckMessage_OK)
	again()
	same(t, "in the first second", keys(start+999), nil) // all are leased for a second
	same(t, "after a second", keys(start+1000), []string{"free", "usual"})
	same(t, "before the block ends", keys(start+49_999), []string{"free", "usual"})
	again()
	same(t, "when the block ends", keys(start+50_000), []string{"blocked"})
	same(t, "before the delay ends", keys(start+99_999), []string{"blocked", "free", "usual"})
	same(t, "when the delay ends", keys(start+101_000), []string{"blocked", "free", "slow", "usual"})
	change, err := s.set("", "small", func(q *pb.Queue) { q.Limit = 0 })
	must(t, s, change, err)
	same(t, "without a limit", keys(start+101_000), []string{"small"})
	change, err = s.setGeneral(func(g *pb.General) { g.Inactive = true })
	must(t, s, change, err)
	again()
	same(t, "inactive", keys(start+500_000), nil)
	put(t, s, discovered("http://new.example/", ""), start, pb.AckMessage_OK)
	change, err = s.setGeneral(func(g *pb.General) { g.Inactive = false })
	must(t, s, change, err)
	same(t, "active again", keys(start+500_000), []string{"blocked", "free", "new.example", "slow", "small", "usual"})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Without a delay, a queue with many URLs does not keep others waiting.
func TestFair(t *testing.T) {
	s := open(t, testdisk.NewMem(), Config{})
	change, err := s.setGeneral(func(g *pb.General) { g.DelayS = 0 })
	must(t, s, change, err)
	for i := range 30 {
		put(t, s, discovered(fmt.Sprintf("http://big.example/%d", i), ""), start, pb.AckMessage_OK)
	}
	put(t, s, discovered("http://b.example/", ""), start+1, pb.AckMessage_OK)
	put(t, s, discovered("http://c.example/", ""), start+2, pb.AckMessage_OK)
	var got []string
	for i := range int64(4) {
		got = append(got, take(t, s, Want{Any: true, Queues: 1, URLs: 1 << 20, Lease: 60}, start+10+i)...)
		if i == 0 {
			same(t, "first", got[:1], []string{"big.example http://big.example/0"})
			got = nil
		}
	}
	same(t, "then", got, []string{"b.example http://b.example/", "c.example http://c.example/"})
	s.Close()
}

// What clients may not send is skipped or refused, and nothing of it is kept.
func TestHostile(t *testing.T) {
	s := open(t, testdisk.NewMem(), Config{})
	long := strings.Repeat("x", MaxURL)
	withMeta := discovered("http://a.example/", "")
	much := &pb.StringList{Values: []string{strings.Repeat("y", MaxItem)}}
	withMeta.GetDiscovered().Info.Metadata = map[string]*pb.StringList{"a": much}
	inCrawl := discovered("http://a.example/", "")
	inCrawl.GetDiscovered().Info.CrawlID = long
	for what, item := range map[string]*pb.URLItem{
		"nothing":            {},
		"no URL":             {Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{}}},
		"an empty URL":       discovered("", "key"),
		"a long URL":         discovered("http://a.example/"+long, "key"),
		"no host":            discovered("mailto:a@example.org", ""),
		"no URL at all":      discovered("::", ""),
		"a space":            discovered("http://a.example/a b", "key"),
		"a line":             discovered("http://a.example/a\nb", "key"),
		"a control":          discovered("http://a.example/\x1b[2J", "key"),
		"no UTF-8":           discovered("http://a.example/\xff", "key"),
		"a long key":         discovered("http://a.example/", long),
		"a key with control": discovered("http://a.example/", "a\x00b"),
		"long metadata":      withMeta,
		"a long crawl":       inCrawl,
		"known without URL":  {Item: &pb.URLItem_Known{Known: &pb.KnownURLItem{}}},
	} {
		if status, _, err := s.Put(item, start); status != pb.AckMessage_SKIPPED || err != nil {
			t.Errorf("%s: %v, %v", what, status, err)
		}
	}
	for _, key := range []string{"", long, "a\nb"} {
		if _, err := s.set("", key, func(*pb.Queue) {}); !errors.Is(err, errArgument) {
			t.Errorf("a setting of queue %.20q: %v", key, err)
		}
	}
	if s.bytes != 0 || len(s.crawls) != 0 {
		t.Errorf("kept: %d bytes, %d crawls", s.bytes, len(s.crawls))
	}
	// A client that moves a date far ahead, or a lease, does no harm.
	put(t, s, known("http://a.example/far", "", -1), start, pb.AckMessage_OK)
	put(t, s, discovered("http://a.example/", ""), start, pb.AckMessage_OK)
	same(t, "taken", take(t, s, Want{Any: true, Lease: 1 << 32}, start), []string{"a.example http://a.example/"})
	s.Close()
}

// When the memory is full, new URLs are refused and all else works. Deleting makes room.
func TestFull(t *testing.T) {
	s := open(t, testdisk.NewMem(), Config{MemoryBytes: 8 << 10})
	n := 0
	for ; ; n++ {
		status, change, err := s.Put(discovered(fmt.Sprintf("http://a.example/%d", n), ""), start)
		if must(t, s, change, err); status == pb.AckMessage_FAIL {
			break
		}
	}
	if n < 10 || n > 40 {
		t.Errorf("%d URLs in 8 KiB", n)
	}
	if _, err := s.set("", "another", func(*pb.Queue) {}); !errors.Is(err, errFull) {
		t.Errorf("a setting of a new queue: %v", err)
	}
	put(t, s, known("http://a.example/0", "", 0), start, pb.AckMessage_OK)
	if got := take(t, s, anyQueue, start); len(got) != 10 {
		t.Errorf("taken: %q", got)
	}
	urls, change, err := s.remove("", proto.String("a.example"))
	if must(t, s, change, err); urls != n || s.bytes != 0 || len(s.crawls) != 0 {
		t.Errorf("deleted %d of %d; left %d bytes", urls, n, s.bytes)
	}
	put(t, s, discovered("http://a.example/0", ""), start, pb.AckMessage_OK)
	s.Close()
}

// dump writes down everything that s knows at a time.
func dump(s *Store, now int64) string {
	var b strings.Builder
	line := func(m proto.Message) {
		text, err := protojson.Marshal(m)
		fmt.Fprintln(&b, strings.ReplaceAll(string(text), " ", ""), err)
	}
	line(s.general())
	for _, id := range sortedIDs(s.crawls) {
		c := s.crawls[id]
		for _, key := range slices.Sorted(maps.Keys(c.queues)) {
			q := c.queues[key]
			line(q.settings())
			fmt.Fprintln(&b, len(q.all), q.completed, len(q.waiting.Items)+len(q.leased.Items))
			var items []string
			for _, e := range q.all {
				lease := e.lease
				if lease <= now {
					lease = 0
				}
				items = append(items, fmt.Sprintf("%v %d", e.item(), lease))
			}
			slices.Sort(items)
			fmt.Fprintln(&b, strings.ReplaceAll(strings.Join(items, "\n"), "  ", " "))
		}
	}
	fmt.Fprintln(&b, s.bytes)
	return b.String()
}

// A player makes random changes.
type player struct {
	s   *Store
	rng *rand.Rand
	now int64
}

// step makes a change, or none. It returns its number.
func (p *player) step() (change uint64, err error) {
	key := fmt.Sprint("q", p.rng.IntN(4))
	id := []string{"", "other"}[p.rng.IntN(2)]
	url := fmt.Sprintf("http://%s.example/%d", key, p.rng.IntN(12))
	if p.rng.IntN(20) == 0 {
		key = "moved"
	}
	p.now += int64(p.rng.IntN(1500))
	switch op := p.rng.IntN(40); {
	case op < 12:
		item := discovered(url, key)
		item.GetDiscovered().Info.CrawlID = id
		item.GetDiscovered().Info.Metadata = map[string]*pb.StringList{"depth": {Values: []string{"1", url}}}
		_, change, err = p.s.Put(item, p.now)
	case op < 20:
		item := known(url, key, []int64{0, p.now/1000 + p.rng.Int64N(20)}[p.rng.IntN(2)])
		item.GetKnown().Info.CrawlID = id
		_, change, err = p.s.Put(item, p.now)
	case op < 32:
		crawl, _ := crawlID(id)
		w := Want{Any: p.rng.IntN(2) == 0, Crawl: crawl, Queues: p.rng.IntN(4), URLs: p.rng.IntN(4),
			Lease: p.rng.Int64N(10)}
		if !w.Any && p.rng.IntN(2) == 0 {
			w.Key = key
		}
		var taken []entry
		eligible := p.eligible(w)
		if taken, change, err = p.s.Take(w, p.now); err == nil {
			var infos []*pb.URLInfo
			for i := range taken {
				infos = append(infos, taken[i].info())
			}
			err = p.judge(w, infos, eligible)
		}
	case op < 34:
		change, err = p.s.set(id, key, func(q *pb.Queue) { q.BlockedUntilS = uint64(p.now/1000 + p.rng.Int64N(5)) })
	case op < 36:
		change, err = p.s.set(id, key, func(q *pb.Queue) { d := uint32(p.rng.IntN(4)); q.DelayS = &d })
	case op < 37:
		change, err = p.s.set(id, key, func(q *pb.Queue) { q.Limit = uint32(p.rng.IntN(6)) })
	case op < 38:
		change, err = p.s.setGeneral(func(g *pb.General) { g.DelayS = uint32(p.rng.IntN(3)) })
	case op < 39:
		_, change, err = p.s.remove(id, &key)
	case p.rng.IntN(6) == 0:
		_, change, err = p.s.remove(id, nil)
	}
	return change, err
}

// eligible returns, by queue, how many URLs it may give: computed from the URLs alone, without heaps.
func (p *player) eligible(w Want) map[*queue]map[string]bool {
	may := map[*queue]map[string]bool{}
	for id, c := range p.s.crawls {
		for key, q := range c.queues {
			if !w.Any && (id != w.Crawl || w.Key != "" && key != w.Key) {
				continue
			}
			delay := p.s.delay
			if q.delay >= 0 {
				delay = q.delay
			}
			completed := 0
			due := map[string]bool{}
			for _, e := range c.urls {
				if e.q == q && e.completed() {
					completed++
				} else if e.q == q && e.lease <= p.now && e.due*1000 <= p.now {
					due[e.url] = true
				}
			}
			if len(due) > 0 && q.blocked*1000 <= p.now && q.produced+delay*1000 <= p.now &&
				(q.limit == 0 || completed < int(q.limit)) {
				may[q] = due
			}
		}
	}
	return may
}

// judge compares what was given with what was eligible.
func (p *player) judge(w Want, infos []*pb.URLInfo, eligible map[*queue]map[string]bool) error {
	given := map[*queue]int{}
	for _, info := range infos {
		q := p.s.crawls[info.CrawlID].queues[info.Key]
		if given[q]++; !eligible[q][info.Url] {
			return fmt.Errorf("%s of %s was given, and was not eligible", info.Url, info.Key)
		}
		delete(eligible[q], info.Url)
		if info.Metadata["depth"] != nil && info.Metadata["depth"].Values[1] != info.Url {
			return fmt.Errorf("%s has the metadata of another URL: %v", info.Url, info.Metadata)
		}
	}
	if w.Queues > 0 && len(given) > w.Queues {
		return fmt.Errorf("URLs of %d queues, at most %d are wanted", len(given), w.Queues)
	}
	for q, left := range eligible {
		leased := q.inProcess(p.now)
		if w.URLs > 0 && given[q] > 0 && leased > w.URLs {
			return fmt.Errorf("queue %s has %d leased URLs, at most %d are wanted", q.key, leased, w.URLs)
		}
		full := w.URLs > 0 && leased >= w.URLs
		others := w.Queues > 0 && len(given) == w.Queues && given[q] == 0
		if len(left) > 0 && !full && !others {
			return fmt.Errorf("queue %s kept %d eligible URLs; it gave %d, for %+v", q.key, len(left), given[q], w)
		}
	}
	return nil
}

// TestModel compares random calls with a naive search, and each restart with the state before it.
func TestModel(t *testing.T) {
	rng := testseed.Rand(t)
	for round := range testtier.Rounds(10, 40) {
		fs := testdisk.NewMem()
		cfg := Config{SnapshotBytes: int64(1 + rng.IntN(4000))}
		p := &player{s: open(t, fs, cfg), rng: rng, now: start}
		for i := range 300 {
			change, err := p.step()
			if err == nil && rng.IntN(3) == 0 {
				err = p.s.commit(change)
			}
			if err != nil {
				t.Fatalf("round %d, step %d: %v", round, i, err)
			}
			if rng.IntN(60) > 0 {
				continue
			}
			want := dump(p.s, p.now)
			if err := p.s.Close(); err != nil {
				t.Fatal(err)
			}
			p.s = open(t, fs, cfg)
			if got := dump(p.s, p.now); got != want {
				t.Fatalf("round %d, step %d: after a restart:\n%s\nbefore it:\n%s", round, i, got, want)
			}
		}
		if err := p.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPowerFailure: after a failure of the disk or the power at any moment, the state is the one after some change, and
// no acknowledged change is lost.
func TestPowerFailure(t *testing.T) {
	rng := testseed.Rand(t)
	for round := range testtier.Rounds(25, 100) {
		mem := testdisk.NewMem()
		fs := testdisk.NewFaulty(mem, nil)
		cfg := Config{SnapshotBytes: int64(1 + rng.IntN(3000))}
		p := &player{s: open(t, fs, cfg), rng: rng, now: start}
		fs.Break(testdisk.FailFrom(int64(10+rng.IntN(120)), errors.New("the power is off")))
		states := map[uint64]string{0: dump(p.s, p.now)}
		last, acked := uint64(0), uint64(0)
		for range 400 {
			change, err := p.step()
			if err == nil && change > last {
				last = change
				states[last] = ""
			}
			if err == nil {
				states[last] = dump(p.s, 0) // with leases that are over, as in the journal
			}
			if err == nil && rng.IntN(2) == 0 {
				if err = p.s.commit(last); err == nil {
					acked = last
				}
			}
			if err != nil {
				break
			}
		}
		if p.s.Err() == nil {
			t.Fatalf("round %d: the disk has not failed", round)
		}
		select {
		case <-p.s.Failed():
		default:
			t.Fatal("the failure was not reported")
		}
		if _, _, err := p.s.Put(discovered("http://a.example/", ""), p.now); err == nil {
			t.Fatal("after the failure a URL is accepted")
		}
		s := open(t, mem.Crash(rng.Uint64()), cfg)
		got := dump(s, p.now)
		found := false
		for change := acked; change <= last && !found; change++ {
			found = settled(states[change], p.now) == settled(dump(s, 0), p.now)
		}
		if !found {
			t.Fatalf("round %d: the state after the crash is that after none of the changes %d to %d:\n%s",
				round, acked, last, got)
		}
		s.Close()
		p.s.Close() // the error is that of the disk
	}
}

// settled is a dump without the leases that are over at a time.
func settled(dump string, now int64) string {
	lines := strings.Split(dump, "\n")
	for i, line := range lines {
		at := strings.LastIndexByte(line, ' ')
		var lease int64
		if _, err := fmt.Sscan(line[at+1:], &lease); err == nil && lease > start/2 && lease <= now {
			lines[i] = line[:at+1] + "0"
		}
	}
	return strings.Join(lines, "\n")
}

// What is taken does not have its metadata decoded: they would take many times as much memory.
func TestTakenMetadata(t *testing.T) {
	s := open(t, testdisk.NewMem(), Config{})
	defer s.Close()
	item := discovered("", "k")
	info := item.GetDiscovered().Info
	info.Metadata = map[string]*pb.StringList{}
	for i := range 2000 {
		info.Metadata[strconv.Itoa(i)] = &pb.StringList{Values: []string{"", ""}}
	}
	for i := range 100 {
		info.Url = "http://a.example/" + strconv.Itoa(i)
		put(t, s, item, start, pb.AckMessage_OK)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	taken, change, err := s.Take(Want{Any: true}, start)
	runtime.ReadMemStats(&after)
	must(t, s, change, err)
	if n := after.TotalAlloc - before.TotalAlloc; len(taken) != 100 || n > 1<<20 {
		t.Errorf("%d URLs are taken with %d bytes", len(taken), n)
	}
	if got := taken[99].info(); len(got.Metadata) != 2000 || got.Key != "k" {
		t.Errorf("got %d metadata of %s", len(got.Metadata), got.Key)
	}
}
