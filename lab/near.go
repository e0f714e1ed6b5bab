package lab

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/near"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Near compares three detectors of near-duplicates with the exact Jaccard coefficient of the pages' shingles: the odd
// sketches of package near, MinHash and SimHash.
//
// It runs in this process. All results but the speeds are the same on every machine.
type Near struct {
	// Pages is the folder with the pages: the packages llvm-13-doc to llvm-16-doc of Debian, unpacked. Empty means
	// "/usr/share/doc".
	Pages string `default:"/usr/share/doc" placeholder:"DIR" help:"${near_pages}"`
}

// nearVersions are the packages.
var nearVersions = []string{"llvm-13-doc", "llvm-14-doc", "llvm-15-doc", "llvm-16-doc"}

// nearLevels are the coefficients from which a pair counts.
var nearLevels = []float64{0.8, 0.9}

// nearRates are the shares of the words in which copies in a generated web differ.
var nearRates = []float64{0.002, 0.005, 0.01, 0.02, 0.03, 0.05}

// nearDistances are the distances of SimHash in bits. Manku, Jain and Das Sarma use 3.
var nearDistances = []int{3, 5, 7, 10}

// A nearPage is a page with its exact shingles and its fingerprints.
type nearPage struct {
	text     []byte
	shingles map[uint64]bool
	sketch   near.Sketch
	keys     [near.Bands]uint64
	min      [minHashes]byte
	sim      uint64
}

// A NearScore tells how well a detector finds the pairs of a level.
type NearScore struct {
	Truth     string         `json:"truth"`
	Level     float64        `json:"level"`
	Detector  string         `json:"detector"`
	Precision classify.Share `json:"precision"`
	Recall    classify.Share `json:"recall"`
}

// A NearRate tells what detectors find of mirrors with a rate of edits.
type NearRate struct {
	Rate    float64        `json:"rate"`
	Jaccard float64        `json:"jaccard_mean"`
	Near    classify.Share `json:"near_at_0_9"`
	Sim     classify.Share `json:"simhash_3"`
}

// nearRun has the results.
type nearRun struct {
	pages, short   int
	pairs          map[float64]int
	scores         []NearScore
	rates          []NearRate
	nearSpeed      float64 // pages/s on one core
	simSpeed       float64
	indexSpeed     float64
	indexFile      float64 // bytes a page that is stored
	indexKeys      float64
	indexMemory    float64
	stored, marked int
}

// Run implements Experiment.
func (x *Near) Run(ctx context.Context, t *Trial) (*Result, error) {
	dir := x.Pages
	if dir == "" {
		dir = "/usr/share/doc"
	}
	r := nearRun{pairs: map[float64]int{}}
	done := t.step("read")
	pages, err := r.read(dir, t.Quick)
	if err != nil {
		return nil, err
	}
	done("%d pages", len(pages))
	done = t.step("pairs of versions")
	if err := r.compare(ctx, "versions", allPairs(pages)); err != nil {
		return nil, err
	}
	done("%d pairs at 0.8", r.pairs[nearLevels[0]])
	done = t.step("mirrors")
	var copies int
	size(t.Quick, &copies, 200, 25)
	if err := r.mirrors(ctx, t.Seed, copies); err != nil {
		return nil, err
	}
	done("%d rates", len(r.rates))
	done = t.step("speed")
	r.speeds(pages)
	if err := r.index(ctx, t, pages); err != nil {
		return nil, err
	}
	done("%.0f pages/s", r.nearSpeed)
	return x.result(&r), nil
}

// result returns the measurements: a place for the precision and the recall of each detector at each level, and for
// each rate of edits.
func (x *Near) result(r *nearRun) *Result {
	d := newData("truth", "level", "detector", "measure", "edits")
	d.Fact("pages", r.pages)
	d.Fact("short", r.short)
	for _, s := range r.scores {
		d.At(s.Truth, s.Level, s.Detector, "recall").All(s.Recall)
		d.At(s.Truth, s.Level, s.Detector, "precision").All(s.Precision)
	}
	for _, n := range r.rates {
		d.At("mirrors", "", "", "", percent*n.Rate).All(n)
	}
	d.Fact("near_pages_per_s", r.nearSpeed)
	d.Fact("simhash_pages_per_s", r.simSpeed)
	d.Fact("index_pages_per_s", r.indexSpeed)
	d.Fact("index_file_bytes", r.indexFile)
	d.Fact("index_key_bytes", r.indexKeys)
	d.Fact("index_memory_bytes", r.indexMemory)
	d.Fact("stored", r.stored)
	d.Fact("marked", r.marked)
	return &Result{Name: "near", Rows: d}
}

// read returns the pages of all versions that have a Sketch.
func (r *nearRun) read(dir string, quick bool) (pages []*nearPage, err error) {
	n := 0
	for _, v := range nearVersions {
		root := filepath.Join(dir, v)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".html") {
				return err
			}
			if n++; quick && n%8 != 0 {
				return nil
			}
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if p := newNearPage(body); p != nil {
				pages = append(pages, p)
			} else {
				r.short++
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%w: %w; --pages names the folder with llvm-13-doc to llvm-16-doc", ErrNoTexts, err)
		}
	}
	r.pages = len(pages)
	return pages, nil
}

// newNearPage returns the page with this body, or nil if it is too short.
func newNearPage(body []byte) *nearPage {
	var page parse.Page
	parse.Parse(parse.Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html; charset=utf-8",
		Body: body}, parse.Options{}, &page)
	p := &nearPage{text: page.AppendProse(nil, body)}
	if !p.print() {
		return nil
	}
	p.shingles = exactShingles(judgeWords(string(body)))
	return p
}

// print sets the fingerprints from the text.
func (p *nearPage) print() (ok bool) {
	var m near.Scratch
	if p.sketch, ok = m.Of(p.text); ok {
		p.keys = p.sketch.Keys()
		p.sim, p.min = simHash(string(p.text)), minHash(p.text)
	}
	return ok
}

var (
	judgeHidden = regexp.MustCompile(`(?is)<script\b.*?</script\s*>|<style\b.*?</style\s*>|<!--.*?-->`)
	judgeTag    = regexp.MustCompile(`(?s)<[!?/a-zA-Z][^>]*>`)
	judgeEntity = regexp.MustCompile(`&#?[a-zA-Z0-9]+;`)
	judgeWord   = regexp.MustCompile(`[\pL\pM\pN]+`)
)

// judgeWords returns the words of a page. It shares no code with the detectors.
func judgeWords(body string) []string {
	body = judgeTag.ReplaceAllString(judgeHidden.ReplaceAllString(body, " "), " ")
	return judgeWord.FindAllString(strings.ToLower(judgeEntity.ReplaceAllString(body, " ")), -1)
}

// exactShingles returns the set of the shingles of five words, by a hash of 64 bits (FNV-1a).
func exactShingles(words []string) map[uint64]bool {
	set := map[uint64]bool{}
	for i := range max(0, len(words)-4) {
		set[fnv64(words[i:i+5])] = true
	}
	return set
}

func fnv64(words []string) uint64 {
	h := uint64(14695981039346656037)
	for _, w := range words {
		for i := range len(w) {
			h = (h ^ uint64(w[i])) * 1099511628211
		}
		h = (h ^ ' ') * 1099511628211
	}
	return h
}

// jaccard returns the exact coefficient.
func jaccard(a, b map[uint64]bool) float64 {
	if len(a) > len(b) {
		a, b = b, a
	}
	both := 0
	for s := range a {
		if b[s] {
			both++
		}
	}
	return float64(both) / float64(max(1, len(a)+len(b)-both))
}

// simHash returns Charikar's fingerprint of 64 bits of the shingles of a text ("Similarity estimation techniques from
// rounding algorithms", STOC 2002), each shingle with weight one for each occurrence.
func simHash(text string) uint64 {
	words := judgeWord.FindAllString(strings.ToLower(text), -1)
	var sums [64]int
	for i := range max(0, len(words)-4) {
		h := scatter(fnv64(words[i : i+5]))
		for b := range sums {
			sums[b] += int(h>>b&1)*2 - 1
		}
	}
	var f uint64
	for b, n := range sums {
		if n > 0 {
			f |= 1 << b
		}
	}
	return f
}

// scatter spreads the bits of a hash.
func scatter(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// minHashes is the number of hashes of minHash.
const minHashes = 256

// minHash returns 4 bits of the least value of each of 256 hash functions of the shingles of a text (Li, König: "b-bit
// minwise hashing", WWW 2010).
func minHash(text []byte) (f [minHashes]byte) {
	var least [minHashes]uint64
	for i := range least {
		least[i] = math.MaxUint64
	}
	for s := range exactShingles(judgeWord.FindAllString(strings.ToLower(string(text)), -1)) {
		s = scatter(s)
		for i := range least {
			least[i] = min(least[i], scatter(s+uint64(i)*0x9E3779B97F4A7C15))
		}
	}
	for i, h := range least {
		f[i] = byte(h & 15)
	}
	return f
}

// minSimilarity estimates the coefficient of two texts from their minHash.
func minSimilarity(a, b *[minHashes]byte) float64 {
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	const chance = 1.0 / 16
	return (float64(same)/minHashes - chance) / (1 - chance)
}

// A nearPair is two pages, and the exact coefficient of their shingles.
type nearPair struct {
	a, b  *nearPage
	exact float64
}

// allPairs yields all pairs. A pair that shares no shingle has the coefficient 0.
func allPairs(pages []*nearPage) func(func(nearPair) bool) {
	return func(yield func(nearPair) bool) {
		postings := map[uint64][]int32{}
		shared := make([]int32, len(pages))
		for i, p := range pages {
			clear(shared[:i])
			for s := range p.shingles {
				for _, j := range postings[s] {
					shared[j]++
				}
				postings[s] = append(postings[s], int32(i))
			}
			for j := range i {
				both := int(shared[j])
				exact := float64(both) / float64(len(p.shingles)+len(pages[j].shingles)-both)
				if !yield(nearPair{pages[j], p, exact}) {
					return
				}
			}
		}
	}
}

// A nearDetector says whether two pages are near-duplicates.
type nearDetector struct {
	name  string
	finds func(p nearPair, level float64) bool
}

// nearDetectors are what is compared.
func nearDetectors() []nearDetector {
	similar := func(p nearPair, level float64) bool { return near.Similarity(&p.a.sketch, &p.b.sketch) >= level }
	ds := []nearDetector{
		{"odd sketch, all pairs", similar},
		{"odd sketch, by bands", func(p nearPair, level float64) bool {
			for i, k := range p.a.keys {
				if k == p.b.keys[i] {
					return similar(p, level)
				}
			}
			return false
		}},
		{"minhash, all pairs", func(p nearPair, level float64) bool {
			return minSimilarity(&p.a.min, &p.b.min) >= level
		}},
	}
	for _, d := range nearDistances {
		ds = append(ds, nearDetector{fmt.Sprintf("simhash, %d bits", d), func(p nearPair, _ float64) bool {
			return bits.OnesCount64(p.a.sim^p.b.sim) <= d
		}})
	}
	return ds
}

// compare lets the detectors judge pairs.
func (r *nearRun) compare(ctx context.Context, truth string, pairs func(func(nearPair) bool)) error {
	ds := nearDetectors()
	scores := make([]NearScore, len(ds)*len(nearLevels))
	n := 0
	for p := range pairs {
		if n++; n%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for i, level := range nearLevels {
			is := p.exact >= level
			if is && truth == "versions" {
				r.pairs[level]++
			}
			for j, d := range ds {
				found, s := d.finds(p, level), &scores[i*len(ds)+j]
				s.Truth, s.Level, s.Detector = truth, level, d.name
				if is {
					tally(&s.Recall, found)
				}
				if found {
					tally(&s.Precision, is)
				}
			}
		}
	}
	r.scores = append(r.scores, scores...)
	return nil
}

// mirrors judges copies of pages in generated webs, whose words differ in a known share.
func (r *nearRun) mirrors(ctx context.Context, seed uint64, most int) error {
	var pairs []nearPair
	for _, rate := range nearRates {
		w, err := gen.New(gen.Spec{Seed: seed, Hosts: 100, Topics: 4, Languages: 4, Duplicates: 0.4, Edits: rate})
		if err != nil {
			return err
		}
		row := NearRate{Rate: rate}
		for page, original := range w.Copies() {
			a, b := generatedPage(w, original), generatedPage(w, page)
			if a == nil || b == nil {
				continue
			}
			p := nearPair{a, b, jaccard(a.shingles, b.shingles)}
			pairs = append(pairs, p)
			row.Jaccard += p.exact
			tally(&row.Near, near.Similarity(&a.sketch, &b.sketch) >= 0.9)
			tally(&row.Sim, bits.OnesCount64(a.sim^b.sim) <= 3)
			if int(row.Near.Of) == most || ctx.Err() != nil {
				break
			}
		}
		row.Jaccard /= float64(max(1, row.Near.Of))
		r.rates = append(r.rates, row)
	}
	return r.compare(ctx, "mirrors", slices.Values(pairs))
}

// generatedPage returns a page of a generated web, or nil if it is too short.
func generatedPage(w *gen.Web, page gen.Seed) *nearPage {
	out, reply := w.Answer(nil, testweb.Query{Host: page.Host, Target: w.Target(page.Host, page.Page)})
	return newNearPage(out[reply.HeadLen:])
}

// speeds measures the fingerprints of texts on one core.
func (r *nearRun) speeds(pages []*nearPage) {
	var m near.Scratch
	began := ownCPU()
	for _, p := range pages {
		m.Of(p.text)
	}
	r.nearSpeed = float64(len(pages)) / (ownCPU() - began).Seconds()
	began = ownCPU()
	for _, p := range pages {
		simHash(string(p.text))
	}
	r.simSpeed = float64(len(pages)) / (ownCPU() - began).Seconds()
}

// index lets the product's index judge the pages, one after the other, and then many pages that are unlike each other.
func (r *nearRun) index(ctx context.Context, t *Trial, pages []*nearPage) error {
	x, err := index.Open(disk.OS, filepath.Join(t.Dir, "near"), index.Config{MemoryBytes: 16 << 20})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- x.Run(run) }()
	var unlike int
	size(t.Quick, &unlike, 500_000, 20_000)
	rng := rand.New(rand.NewPCG(t.Seed, 12))
	var began time.Duration
	stored := 0
	for i := range len(pages) + unlike {
		var s near.Sketch
		if i == len(pages) {
			r.stored, began = stored, ownCPU()
		}
		if i < len(pages) {
			s = pages[i].sketch
		} else {
			for b := range s {
				s[b] = byte(rng.Uint32())
			}
		}
		first, claim, err := x.Find(ctx, s, index.Original{URL: fmt.Sprintf("http://a.example/%d", i)})
		if err != nil {
			stop()
			return cmp.Or(<-ended, err)
		}
		if first != nil && i < len(pages) {
			r.marked++
		}
		if claim != nil {
			claim.Archived(time.Now())
			stored++
		}
		if i%64 == 0 {
			x.Syncing()()
		}
	}
	x.Syncing()()
	r.indexSpeed = float64(unlike) / (ownCPU() - began).Seconds()
	stop()
	if err := <-ended; err != nil {
		return err
	}
	file, keys, memory := x.Size()
	all := float64(stored)
	r.indexFile, r.indexKeys, r.indexMemory = float64(file)/all, float64(keys)/all, float64(memory)/all
	return x.Close()
}
