package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/lab/rivals"
	"github.com/orbweaver/orbweaver/lab/stream"
)

// A StoreSpec says what the process that runs one store is to do.
type StoreSpec struct {
	Store string
	Shape string
	Seed  uint64
	Dir   string // exists and is empty
	Group string // folder of the control group to run in; empty: the present one
	// Memory is what the store's process may take in all, where the store can
	// be told; Most what it may take before it is stopped.
	Memory, Most int64
	// Points are the numbers of known keys at which it is measured, ascending.
	Points []int64
	// Checks bounds the checks of a measurement, which has as many as there
	// are keys if that is less, and three tenths of them if that is more: of a
	// store that answers some dozens of millions at a time it would else show
	// the last answers more than all others.
	Checks int64
	// Window bounds the time of a measurement, Limit that of all.
	Window, Limit time.Duration
	// Profile is the file for a processor profile of the last measurement;
	// empty: none.
	Profile string
}

// checks is how many checks a measurement with so many keys has at most.
func (s *StoreSpec) checks(keys int64) int64 { return max(min(keys, s.Checks), keys*3/10) }

// A StorePoint is what a store did when it knew so many keys.
type StorePoint struct {
	Keys int64 `json:"keys"` // before the measurement

	// From the point before to this one: new keys only.
	FillKeys    int64         `json:"fill_keys"`
	FillTime    time.Duration `json:"fill_ns"`
	FillWritten int64         `json:"fill_written_bytes"`

	// The measurement: one in ten is new. Time includes the making of the
	// stream and, at the end, the Flush, which is also told by itself.
	Checks int64         `json:"checks"`
	Time   time.Duration `json:"ns"`
	Flush  time.Duration `json:"flush_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	// Cut says that it was ended before all its checks by the time.
	Cut bool `json:"cut,omitempty"`
	IO  IO   `json:"io"`
	// Block is how long an Add of batchItems took, New how long a new URL waited until
	// it was emitted, of a sample.
	Block Percentiles `json:"block"`
	New   Percentiles `json:"new"`

	// At the end of it.
	Known int64 `json:"known"`
	Disk  int64 `json:"disk_bytes"`
	// RAM is the greatest anonymous resident memory since the point before, Mapped the
	// greatest resident memory of files, both without what the process had
	// before the store was opened.
	RAM    int64 `json:"ram_bytes"`
	Mapped int64 `json:"mapped_bytes"`
	// Told is what the store says of itself.
	Told map[string]int64 `json:"told,omitempty"`

	// False answers so far.
	Twice   int64 `json:"false_new"`
	Missing int64 `json:"false_known"`
	Foreign int64 `json:"foreign"`
}

// PerS are the checks a second.
func (p *StorePoint) PerS() float64 { return float64(p.Checks) / max(p.Time.Seconds(), 1e-9) }

// False are the wrong answers.
func (p *StorePoint) False() int64 { return p.Twice + p.Missing + p.Foreign }

// A StoreEnd is why a store's process ended.
type StoreEnd struct {
	// Why is "done", "time" or "memory".
	Why  string `json:"end"`
	Keys int64  `json:"at_keys"`
}

// IO is what a process has read and written: asked of the system, and of the disk.
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
	// oneInNew is the share of new URLs, as IRLbot met them.
	oneInNew = 10
	// latencySample: of so many new URLs one is followed until it is emitted.
	latencySample = 256
)

// told is a Store that has something to say of itself.
type told interface{ Told() map[string]int64 }

// storeRun is a store with its stream, in the process that runs it.
type storeRun struct {
	spec  StoreSpec
	kind  rivals.Kind
	s     *stream.Stream
	judge *stream.Judge
	store rivals.Store
	items []stream.Item
	began time.Time
	mem   *memoryWatch

	asked       time.Time            // when the present Add began
	wait        map[uint64]time.Time // followed URLs that were not emitted yet
	block, news *Latencies
}

// RunStore is the process: it puts a stream to a store, and writes a line of
// JSON for each point and one at the end.
func RunStore(ctx context.Context, spec []byte, out io.Writer) error {
	var r storeRun
	if err := json.Unmarshal(spec, &r.spec); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if r.spec.Group != "" {
		if err := joinMemoryGroup(r.spec.Group); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	shape, err := stream.ParseShape(r.spec.Shape)
	if err != nil {
		return err
	}
	kind, ok := rivals.Find(r.spec.Store)
	if !ok || len(r.spec.Points) == 0 {
		return fmt.Errorf("store %q with %d points: there is no such", r.spec.Store, len(r.spec.Points))
	}
	last := r.spec.Points[len(r.spec.Points)-1]
	last += last/oneInNew + last/50 + 10*batchItems // with what the measurement adds
	r.kind = kind
	r.s = stream.New(r.spec.Seed, shape)
	r.judge = stream.NewJudge(r.s, last)
	r.items = make([]stream.Item, batchItems)
	r.wait = make(map[uint64]time.Time)
	stream.New(r.spec.Seed, shape).Next(r.items, 1) // its buffers count for the process, too
	runtime.GC()
	r.mem = watchMemory()
	defer r.mem.stop()
	memory := r.spec.Memory
	if kind.Bounded {
		// All of the process is to fit but the judge, if there is room for more
		// than it. The collector lets the heap grow up to its limit, and a bit
		// over it.
		own := r.mem.base.anon - r.judge.Bytes()
		memory -= min(r.mem.base.file, memory/8)
		debug.SetMemoryLimit(memory - memory/12 + r.judge.Bytes())
		memory -= memory/8 + min(max(0, own), memory/16) // for the run time of Go
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

// emitted takes what the store says to be new.
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

// add puts one batch to the store.
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

// over says why it should end.
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
		// What was cut in its first half tells more of its end than of the store.
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

// profiled is measure, with a profile of the last one if that is wanted.
func (r *storeRun) profiled(ctx context.Context, p *StorePoint, last bool) (why string, err error) {
	if !last || r.spec.Profile == "" {
		return r.measure(ctx, p)
	}
	f, err := os.Create(r.spec.Profile)
	if err != nil {
		return "", fmt.Errorf("profile: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := pprof.StartCPUProfile(f); err != nil {
		return "", fmt.Errorf("profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return r.measure(ctx, p)
}

// measure is one measurement.
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

// sizeOf is the length of all files below dir.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil // deleted meanwhile
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

// ownIO is what this process has read and written so far; zero where the
// system does not say.
func ownIO() (n IO) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return IO{}
	}
	for name, v := range map[string]*int64{"rchar": &n.Read, "wchar": &n.Written, "read_bytes": &n.DiskRead,
		"write_bytes": &n.DiskWritten} {
		fmt.Sscan(field(b, name), v)
	}
	return n
}

// ownCPU is this process's time of processors so far.
func ownCPU() time.Duration {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	return cpuOf(b)
}

// memoryWatch keeps the peak of this process's memory.
type memoryWatch struct {
	base residents

	mu    sync.Mutex // guards these
	last  residents
	most  residents
	over  chan struct{}
	ended chan struct{}
}

// residents is resident memory: anonymous, and of files.
type residents struct{ anon, file int64 }

func ownMemory() residents {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return residents{}
	}
	return residents{kilobytes(b, "RssAnon:"), kilobytes(b, "RssFile:")}
}

// watchMemory watches until stop is called.
func watchMemory() *memoryWatch {
	w := &memoryWatch{base: ownMemory(), over: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-tick.C:
			case <-w.over:
				return
			}
		}
	}()
	return w
}

func (w *memoryWatch) look() {
	now := ownMemory()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = residents{now.anon - w.base.anon, now.file - w.base.file}
	w.most = residents{max(w.most.anon, w.last.anon), max(w.most.file, w.last.file)}
}

// now is the anonymous memory at the last look.
func (w *memoryWatch) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.anon
}

// peak is the most since it was last called.
func (w *memoryWatch) peak() (anon, file int64) {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	anon, file = w.most.anon, w.most.file
	w.most = w.last
	return max(anon, 0), max(file, 0)
}

func (w *memoryWatch) stop() {
	close(w.over)
	<-w.ended
}

// eachLine calls fn for each whole line of b, without its end, and returns what is left.
func eachLine(b []byte, fn func([]byte)) []byte {
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return b
		}
		fn(line)
		b = rest
	}
}

// storeLines reads what RunStore writes.
type storeLines struct {
	rest   []byte
	points []StorePoint
	end    *StoreEnd
	err    error
	tick   func(StorePoint)
}

func (l *storeLines) Write(b []byte) (int, error) {
	l.rest = eachLine(append(l.rest, b...), l.line)
	return len(b), nil
}

func (l *storeLines) line(b []byte) {
	var end StoreEnd
	if json.Unmarshal(b, &end) == nil && end.Why != "" {
		l.end = &end
		return
	}
	var p StorePoint
	if err := json.Unmarshal(b, &p); err != nil || p.Keys == 0 {
		l.err = fmt.Errorf("store: what is %q?", b)
		return
	}
	l.points = append(l.points, p)
	if l.tick != nil {
		l.tick(p)
	}
}
