package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/lab/rivals"
	"github.com/orbweaver/orbweaver/lab/stream"
)

// A StoreSpec tells the process of one store what to measure.
type StoreSpec struct {
	Store string
	Shape string
	Seed  uint64
	Dir   string // an existing empty directory
	// Memory bounds the memory of the store's process in bytes, if the store's memory can be
	// bounded. At Most bytes the process stops.
	Memory, Most int64
	// Points are the numbers of known keys at which the process measures, ascending.
	Points []int64
	// Checks bounds the checks of a measurement; see checks.
	Checks int64
	// Window bounds the time of a measurement, Limit the time of the whole process.
	Window, Limit time.Duration
	// Profile is the file for a processor profile of the last measurement. Empty means none.
	Profile string
}

// checks bounds the number of checks of a measurement at a number of keys: one per key, at most
// Checks, and at least three tenths of the keys. With fewer, the last answers of a store that
// answers dozens of millions of keys at a time would have too much weight.
func (s *StoreSpec) checks(keys int64) int64 { return max(min(keys, s.Checks), keys*3/10) }

// A StorePoint is a measurement of a store at a number of known keys.
type StorePoint struct {
	Keys int64 `json:"keys"` // known before the measurement

	// The time between the point before and this one, with new keys only.
	FillKeys    int64         `json:"fill_keys"`
	FillTime    time.Duration `json:"fill_ns"`
	FillWritten int64         `json:"fill_written_bytes"`

	// The measurement, in which one key in ten is new. Time includes the generation of the
	// stream and the Flush at the end, whose time is also given by itself.
	Checks int64         `json:"checks"`
	Time   time.Duration `json:"ns"`
	Flush  time.Duration `json:"flush_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	// Cut reports that the measurement ran out of time before its last check.
	Cut bool `json:"cut,omitempty"`
	IO  IO   `json:"io"`
	// Block is the time of an Add of batchItems items. New is the time from the Add of a new URL
	// until it was emitted, for a sample of URLs.
	Block Percentiles `json:"block"`
	New   Percentiles `json:"new"`

	// At the end of the measurement.
	Known int64 `json:"known"`
	Disk  int64 `json:"disk_bytes"`
	// RAM is the largest anonymous resident memory since the point before, Mapped the largest
	// resident memory of files. Both exclude the memory that the process had before it opened
	// the store.
	RAM    int64 `json:"ram_bytes"`
	Mapped int64 `json:"mapped_bytes"`
	// Told holds the store's own counts.
	Told map[string]int64 `json:"told,omitempty"`

	// Wrong answers so far.
	Twice   int64 `json:"false_new"`
	Missing int64 `json:"false_known"`
	Foreign int64 `json:"foreign"`
}

// PerS returns the checks per second.
func (p *StorePoint) PerS() float64 { return float64(p.Checks) / max(p.Time.Seconds(), 1e-9) }

// False returns the number of wrong answers.
func (p *StorePoint) False() int64 { return p.Twice + p.Missing + p.Foreign }

// A StoreEnd says why a store's process ended.
type StoreEnd struct {
	// Why is "done", "time" or "memory".
	Why  string `json:"end"`
	Keys int64  `json:"at_keys"`
}

// IO is the number of bytes that a process has read and written, by system calls and on the disk.
type IO struct {
	Read        int64 `json:"read"`
	Written     int64 `json:"written"`
	DiskRead    int64 `json:"disk_read"`
	DiskWritten int64 `json:"disk_written"`
}

func (a IO) since(b IO) IO {
	return IO{a.Read - b.Read, a.Written - b.Written, a.DiskRead - b.DiskRead, a.DiskWritten - b.DiskWritten}
}

const (
	batchItems = 1000
	// oneInNew: one URL in ten is new, as in the crawl of IRLbot, a crawler (paper).
	oneInNew = 10
	// latencySample: the process follows one in latencySample new URLs until it is emitted.
	latencySample = 256
)

// told is a Store with counts of its own.
type told interface{ Told() map[string]int64 }

// storeRun is a store with its stream, in the store's process.
type storeRun struct {
	spec  StoreSpec
	kind  rivals.Kind
	s     *stream.Stream
	judge *stream.Judge
	store rivals.Store
	items []stream.Item
	began time.Time
	mem   *memoryWatch

	asked       time.Time            // start of the present Add
	wait        map[uint64]time.Time // followed URLs that are not emitted yet
	block, news *Latencies
}

// RunStore runs the process of a store. spec is a StoreSpec as JSON. It feeds a stream to the
// store, and writes a StorePoint as a line of JSON for each point, and a StoreEnd at the end.
func RunStore(ctx context.Context, spec []byte, out io.Writer) error {
	var r storeRun
	if err := json.Unmarshal(spec, &r.spec); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	shape, err := stream.ParseShape(r.spec.Shape)
	if err != nil {
		return err
	}
	kind, ok := rivals.Find(r.spec.Store)
	if !ok || len(r.spec.Points) == 0 {
		return fmt.Errorf("store %q with %d points: no such store, or no points", r.spec.Store, len(r.spec.Points))
	}
	last := r.spec.Points[len(r.spec.Points)-1]
	last += last/oneInNew + last/50 + 10*batchItems // the measurement adds keys
	r.kind = kind
	r.s = stream.New(r.spec.Seed, shape)
	r.judge = stream.NewJudge(r.s, last)
	r.items = make([]stream.Item, batchItems)
	r.wait = make(map[uint64]time.Time)
	stream.New(r.spec.Seed, shape).Next(r.items, 1) // allocates its buffers before the base is measured
	runtime.GC()
	mem, stop := watchMemory()
	defer stop()
	r.mem = mem
	memory := r.spec.Memory
	if kind.Bounded {
		// The whole process without the judge must fit into the memory, if the memory is larger
		// than the judge. The garbage collector lets the heap grow a little over its limit.
		own := r.mem.base.anon - r.judge.Bytes()
		memory -= min(r.mem.base.file, memory/8)
		debug.SetMemoryLimit(memory - memory/12 + r.judge.Bytes())
		memory -= memory/8 + min(max(0, own), memory/16) // for the Go runtime
	}
	r.store, err = kind.Open(rivals.Config{FS: disk.OS, Dir: r.spec.Dir, Memory: memory, Keys: last, Emit: r.emitted})
	if err != nil {
		return err
	}
	end, err := r.run(ctx, json.NewEncoder(out))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(end); err != nil {
		return err
	}
	return r.store.Close()
}

// emitted receives the new items of the store and checks them.
func (r *storeRun) emitted(items []stream.Item) error {
	for i := range items {
		if n, ok := r.judge.Emitted(&items[i]); ok && n%latencySample == 0 {
			if at, ok := r.wait[n]; ok {
				delete(r.wait, n)
				r.news.Add(time.Since(at))
			}
		}
	}
	return nil
}

// add adds one batch to the store.
func (r *storeRun) add(oneIn int) error {
	from := r.s.Fresh()
	r.s.Next(r.items, oneIn)
	r.asked = time.Now()
	for n := (from + latencySample - 1) / latencySample * latencySample; n < r.s.Fresh(); n += latencySample {
		r.wait[uint64(n)] = r.asked
	}
	err := r.store.Add(r.items)
	r.block.Add(time.Since(r.asked))
	return err
}

// over returns why the process should end now, or "".
func (r *storeRun) over(ctx context.Context) string {
	switch {
	case ctx.Err() != nil || time.Since(r.began) > r.spec.Limit:
		return "time"
	case r.spec.Most > 0 && r.mem.now() > r.spec.Most:
		return "memory"
	}
	return ""
}

func (r *storeRun) run(ctx context.Context, out *json.Encoder) (StoreEnd, error) {
	r.began = time.Now()
	for _, keys := range r.spec.Points {
		p := StorePoint{}
		r.block, r.news = new(Latencies), new(Latencies)
		before, from, start := ownIO(), r.s.Fresh(), time.Now()
		for r.s.Fresh() < keys {
			if err := r.add(1); err != nil {
				return StoreEnd{}, err
			}
			if why := r.over(ctx); why != "" {
				return StoreEnd{why, r.s.Fresh()}, nil
			}
		}
		p.FillKeys, p.FillTime, p.FillWritten = r.s.Fresh()-from, time.Since(start), ownIO().since(before).Written
		why, err := r.profiled(ctx, &p, keys == r.spec.Points[len(r.spec.Points)-1])
		if err != nil {
			return StoreEnd{}, err
		}
		// A measurement that was cut in its first half tells little about the store.
		if why == "" || p.Checks >= r.spec.checks(p.Keys)/2 {
			if err := out.Encode(p); err != nil {
				return StoreEnd{}, err
			}
		}
		if why != "" {
			return StoreEnd{why, r.s.Fresh()}, nil
		}
	}
	return StoreEnd{"done", r.s.Fresh()}, nil
}

// profiled calls measure. For the last measurement it writes a profile if the spec asks for it.
func (r *storeRun) profiled(ctx context.Context, p *StorePoint, last bool) (why string, err error) {
	if !last || r.spec.Profile == "" {
		return r.measure(ctx, p)
	}
	stop, err := startProfile(r.spec.Profile)
	if err != nil {
		return "", fmt.Errorf("profile: %w", err)
	}
	defer stop()
	return r.measure(ctx, p)
}

// measure makes one measurement.
func (r *storeRun) measure(ctx context.Context, p *StorePoint) (why string, err error) {
	p.Keys = r.s.Fresh()
	checks := r.spec.checks(p.Keys)
	r.block, r.news = new(Latencies), new(Latencies)
	before, cpu, start := ownIO(), ownCPU(), time.Now()
	for p.Checks < checks {
		if err := r.add(oneInNew); err != nil {
			return "", err
		}
		p.Checks += int64(len(r.items))
		if why = r.over(ctx); why != "" || time.Since(start) > r.spec.Window {
			p.Cut = true
			break
		}
	}
	flush := time.Now()
	if err := r.store.Flush(); err != nil {
		return "", err
	}
	p.Flush, p.Time = time.Since(flush), time.Since(start)
	p.CPU, p.IO = ownCPU()-cpu, ownIO().since(before)
	p.Block, p.New = r.block.Spread(), r.news.Spread()
	p.Known = r.s.Fresh()
	p.RAM, p.Mapped = r.mem.peak()
	p.Twice, p.Missing, p.Foreign = r.judge.Twice, r.judge.Missing(), r.judge.Foreign
	clear(r.wait)
	if s, ok := r.store.(told); ok {
		p.Told = s.Told()
	}
	p.Disk, err = sizeOf(r.spec.Dir)
	return why, err
}

// sizeOf returns the length of all files below dir.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil // the store has deleted the file
		}
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", dir, err)
	}
	return n, nil
}

// ownIO returns the IO of this process so far, or zero if the system does not tell.
func ownIO() IO {
	n := proc(os.Getpid(), procfs.Proc.IO)
	return IO{int64(n.RChar), int64(n.WChar), int64(n.ReadBytes), int64(n.WriteBytes)}
}

// ownCPU returns the processor time of this process so far, in microseconds. /proc tells hundredths of a second.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // its arguments are valid
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memoryWatch samples the memory of this process and keeps the peak.
type memoryWatch struct {
	base residents

	mu   sync.Mutex // guards the fields below
	last residents
	most residents
}

// residents is the resident memory, anonymous and of files.
type residents struct{ anon, file int64 }

func ownMemory() residents {
	s := statusOf(os.Getpid())
	return residents{int64(s.RssAnon), int64(s.RssFile)}
}

// watchMemory starts to sample. The caller must call stop.
func watchMemory() (w *memoryWatch, stop func()) {
	w = &memoryWatch{base: ownMemory()}
	return w, every(sampleEvery, w.look)
}

func (w *memoryWatch) look() {
	now := ownMemory()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = residents{now.anon - w.base.anon, now.file - w.base.file}
	w.most = residents{max(w.most.anon, w.last.anon), max(w.most.file, w.last.file)}
}

// now returns the anonymous memory of the last sample.
func (w *memoryWatch) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.anon
}

// peak returns the largest values since the last call of peak.
func (w *memoryWatch) peak() (anon, file int64) {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	anon, file = w.most.anon, w.most.file
	w.most = w.last
	return max(anon, 0), max(file, 0)
}
