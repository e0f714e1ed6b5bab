// Package browser answers: what does a page show, and link to, when its scripts have run?
//
//	Document -> Pool -> slot -> view: context, tab, gateway -> Finished
//	            the files of the page -> gateway -> Origin
//
// A view is one page in one tab. It begins with a document that the crawler has fetched, so the page is never asked for
// twice. Everything else that the page wants comes through the view's gateway and is answered by the Origin. The
// DevTools protocol steers the tab, and nothing else: it sees no request.
//
// A page is hostile. It has a context of its own (cookies, storage, caches), a bound on its time, and the browser's
// processes have a bound on their memory. Each place for a view has a browser process of its own, so a page that
// crashes or hangs costs its own view alone; the process is then replaced, and also after some number of views.
package browser

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/web/browser/gateway"
	"github.com/orbweaver/orbweaver/internal/web/browser/process"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Config tunes a Pool. The zero value of each bound is its default.
type Config struct {
	Program   process.Program
	Dir       string   // for the profiles of the browsers; Open empties it
	Environ   []string // the crawler's, as os.Environ returns it; the browsers see a part of it
	NoSandbox bool
	UserAgent string
	Language  string // "en-US"
	Width     int    // of a view, in pixels; 1280
	Height    int    // 800

	Views   int   // at once; 1
	Recycle int   // a browser process ends after so many views; 100
	Memory  int64 // bytes that the processes of one browser may have for themselves; 1 GiB
	Heap    int   // MiB of the JavaScript heap of a page; 512

	// NetLog is a file into which the browser writes what its network does, for one that has a doubt. It needs Views 1.
	NetLog string

	Clock clock.Clock
}

// A Document is the page as the crawler has fetched it.
type Document struct {
	URL    weburl.URL
	Status int
	Header http.Header
	Body   []byte // decoded
}

// Bounds limits one view. Zero means the default.
type Bounds struct {
	Time  time.Duration // of the page; 60 s. Reading the finished page may take some seconds more.
	Stuck time.Duration // a page that does not answer for so long hangs; 15 s
	Quiet time.Duration // the page is at rest if it has asked for nothing for so long; 500 ms
	Steps int           // scrolls and clicks; 50; negative: none
	HTML  int           // bytes of the finished document; 16 MiB
	Text  int           // bytes of its visible text; 2 MiB
	Links int           // that scripts made without an element; 1,000
	gateway.Limits
}

func (b Bounds) filled() Bounds {
	b.Time, b.Quiet = cmp.Or(b.Time, time.Minute), cmp.Or(b.Quiet, 500*time.Millisecond)
	b.Stuck = cmp.Or(b.Stuck, 15*time.Second)
	b.Steps, b.HTML, b.Text = cmp.Or(b.Steps, 50), cmp.Or(b.HTML, 16<<20), cmp.Or(b.Text, 2<<20)
	b.Links = cmp.Or(b.Links, 1000)
	return b
}

// Wants says what a view is to bring beside the document.
type Wants struct{ Screenshot, PDF bool }

// An Ending says how a view ended.
type Ending string

const (
	Rested    Ending = "rest"       // the page had nothing more to do
	OutOfTime Ending = "time"       // it still had; what it showed then was read
	Crashed   Ending = "crash"      // its process ended
	Hung      Ending = "hang"       // it did not answer, so nothing could be read
	NoPage    Ending = "no-page"    // the browser did not show the document: a download, for example
	NoBrowser Ending = "no-browser" // no browser could be started
)

// A Link is a URL that a script made without an element that links to it.
type Link struct {
	URL string
	How How
}

// How says what a script did with a URL.
type How string

const (
	Navigated How = "navigation" // went to it, or submitted a form to it
	Opened    How = "window"     // opened it in a window
	Routed    How = "route"      // made it the page's address (history.pushState and the like)
	Download  How = "download"   // wanted to save it
)

// Finished is what a view brought. HTML, Title and Text are empty unless Ended is Rested or OutOfTime.
type Finished struct {
	Ended      Ending
	Why        error  // more about an Ended other than Rested and OutOfTime
	HTML       string // the document, with the content of open shadow roots at its end
	Cut        bool   // HTML or Text was longer than its bound
	Title      string
	Text       string // what is visible
	Links      []Link
	Screenshot []byte // PNG
	PDF        []byte
	Dialogs    int // that were dismissed
	Steps      int // scrolls and clicks that were made
	Took       time.Duration
	Counts     gateway.Counts
}

// A Pool runs views. Safe for concurrent use.
type Pool struct {
	cfg       Config
	authority *gateway.Authority
	slots     chan *slot

	mu       sync.Mutex // guards the rest
	started  int
	replaced int // after a crash or a hang
}

// A slot is a place for one view at a time. Its holder owns it.
type slot struct {
	process *process.Process // nil: not started
	views   int              // of this process
}

// Open returns a pool. It starts no browser: the first view of each slot does.
func Open(c Config) (*Pool, error) {
	c.Views, c.Recycle, c.Memory = cmp.Or(c.Views, 1), cmp.Or(c.Recycle, 100), cmp.Or(c.Memory, 1<<30)
	c.Clock = clock.Or(c.Clock)
	if err := process.Clear(c.Dir); err != nil {
		return nil, err
	}
	a, err := gateway.NewAuthority(c.Clock.Now())
	if err != nil {
		return nil, err
	}
	p := &Pool{cfg: c, authority: a, slots: make(chan *slot, c.Views)}
	for range c.Views {
		p.slots <- &slot{}
	}
	return p, nil
}

// Close waits for the views that run, and ends all browsers.
func (p *Pool) Close() {
	for range p.cfg.Views {
		s := <-p.slots
		s.end()
	}
}

// Started returns how many browser processes were started, and how many of them replaced one that a page had brought
// down.
func (p *Pool) Started() (all, replaced int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, p.replaced
}

// View shows a document and returns what became of it. It waits for a free slot. What the page does is in Finished; the
// error is that of ctx.
func (p *Pool) View(ctx context.Context, d Document, b Bounds, w Wants, o gateway.Origin) (*Finished, error) {
	var s *slot
	select {
	case s = <-p.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.slots <- s }()
	began := p.cfg.Clock.Now()
	f := p.view(ctx, s, &d, b.filled(), w, o)
	f.Took = p.cfg.Clock.Now().Sub(began)
	s.views++
	brought := f.Ended == Crashed || f.Ended == Hung
	if brought || s.views >= p.cfg.Recycle {
		s.end()
	}
	if brought {
		p.mu.Lock()
		p.replaced++
		p.mu.Unlock()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

func (p *Pool) view(ctx context.Context, s *slot, d *Document, b Bounds, w Wants, o gateway.Origin) *Finished {
	if s.process != nil {
		select {
		case <-s.process.Exited(): // between two views
			s.end()
		default:
		}
	}
	if s.process == nil {
		started, err := process.Start(ctx, process.Config{Program: p.cfg.Program, Dir: p.cfg.Dir,
			Environ: p.cfg.Environ, NoSandbox: p.cfg.NoSandbox, Pin: p.authority.Pin(),
			UserAgent: p.cfg.UserAgent, Language: p.cfg.Language,
			Width: p.cfg.Width, Height: p.cfg.Height, Heap: p.cfg.Heap, NetLog: p.cfg.NetLog})
		if err != nil {
			return &Finished{Ended: NoBrowser, Why: err}
		}
		s.process = started
		p.mu.Lock()
		p.started++
		p.mu.Unlock()
	}
	v := &view{process: s.process, document: d, bounds: b, wants: w, origin: o, clock: p.cfg.Clock}
	watched, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { guard(watched, s.process, p.cfg.Memory) })
	err := v.run(ctx, p.authority)
	stop()
	watch.Wait()
	v.found.Why = err
	if err != nil {
		v.found.Ended = v.ending(err)
	}
	return &v.found
}

// end ends the process of a slot.
func (s *slot) end() {
	if s.process != nil {
		s.process.End()
	}
	s.process, s.views = nil, 0
}

// lookEvery is how often the memory of a browser is looked at while it has a view.
const lookEvery = 250 * time.Millisecond

// guard kills the page that makes a browser take more memory than it may.
func guard(ctx context.Context, p *process.Process, most int64) {
	for clock.Pause(ctx, lookEvery) {
		if bytes, _ := p.Memory(); bytes > most {
			p.KillLargest()
		}
	}
}

var (
	errCrashed = errors.New("the page's process has ended")
	errNoPage  = errors.New("the browser does not show it")
	errStuck   = errors.New("the page does not answer")
)
