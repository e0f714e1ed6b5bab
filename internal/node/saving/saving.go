// Package saving answers: how does the state of an agent outlive its machine?
//
//	crawl loop at rest -> image.Take -> the segments so far are in the store -> image.Save -> the store
//	the store -> Fetch -> an empty directory -> the crawl is resumed as after a kill
//
// The store has a series of images for each agent, below crawl-data/CRAWL/state/AGENT/. An image is what a kill would
// leave in the crawl directory, without what a resumed crawl makes anew (package crawlstate), and without the archive:
// its segments are in the store before an image refers to them. So every page that the image calls finished is in a
// segment of the store, and what was fetched later is fetched again.
//
// An image may be older than those of other agents. So an agent counts a link as handed over when an image of the
// receiver has it, and until then its own images list the link (package outbox, Kept).
//
// One process at a time crawls for a series. It asks the store every few seconds whether another one has claimed it,
// and then stops (package image).
package saving

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Series says whose states are saved, and where.
type Series struct {
	Store stores.Place
	Crawl string // the name of the crawl below crawl-data
	Agent string // the agent's name; "" if it crawls alone
	FS    disk.FS
	Dir   string // the crawl directory
	Clock clock.Clock
	// Notes tells a person what Fetch and Open wait for. nil: nobody is told.
	Notes Notes
	// Generation, if it is above 0, is that of the only claim that Fetch may replace.
	Generation int64
}

// Notes tells a person what a start waits for.
type Notes interface {
	object.Waiter // for the store
	Note(text string)
}

// Told calls a function with each text. A nil Told tells nobody.
type Told func(text string)

// Note implements Notes.
func (t Told) Note(text string) {
	if t != nil {
		t(text)
	}
}

// Waits implements object.Waiter.
func (t Told) Waits(why error, _ time.Duration) { t.Note("waiting for the store: " + why.Error()) }

// alone is the name of the series of an agent that crawls alone.
const alone = "agent"

func (s *Series) agent() string { return cmp.Or(s.Agent, alone) }

func (s *Series) disk() disk.FS { return cmp.Or(s.FS, disk.OS) }

// prefix returns the beginning of the keys of an agent's series.
func (s *Series) prefix(agent string) string {
	return path.Join(warc.CrawlData, s.Crawl, "state", cmp.Or(agent, alone)) + "/"
}

// open returns the place of an agent's series.
func (s *Series) open(agent string, c object.Config) (image.Place, error) {
	c.Clock = s.Clock
	store, err := stores.Open(cmp.Or(s.FS, disk.OS), s.Store, c)
	return image.Place{Store: store, Prefix: s.prefix(agent), Clock: s.Clock}, err
}

// claimConfig has the times of a claim: an agent drains for at most 30 s before it stops.
var claimConfig = image.Config{Lease: 30 * time.Second, Stop: 45 * time.Second, Share: 0.2}

// runFile names the run that the crawl directory belongs to, and runMax bounds it.
const (
	runFile = "state/store.json"
	runMax  = 64 << 10
)

// ownRun is the content of runFile.
type ownRun struct {
	Store string `json:"store"` // its URL
	Run   string `json:"run"`
	// Alone means that the process before has stopped: Fetch or Open has waited for that.
	Alone bool `json:"alone,omitempty"`
	// Restored means that Fetch has made the directory, and no run has begun in it. Fetched means that Fetch has made
	// it, for this run.
	Restored bool `json:"restored,omitempty"`
	Fetched  bool `json:"fetched,omitempty"`
	// Until, of a process that waits, is when the process before has stopped for certain.
	Until time.Time `json:"until,omitzero"`
}

// Origin names the restore from a store that has made the crawl in dir; "": none has. Each restore has a name of its
// own. The error says that the file is damaged, or comes from the disk.
func Origin(fsys disk.FS, dir string) (string, error) {
	own, err := readRun(fsys, dir)
	if err != nil || !own.Fetched {
		return "", err
	}
	return own.Run, nil
}

// readRun reads runFile. The result is zero if there is none.
func readRun(fsys disk.FS, dir string) (own ownRun, err error) {
	name := filepath.Join(dir, runFile)
	b, err := disk.ReadFile(fsys, name, runMax)
	if errors.Is(err, fs.ErrNotExist) {
		return ownRun{}, nil
	}
	if err == nil && json.Unmarshal(b, &own) != nil {
		err = fmt.Errorf("%s is damaged: restore it, or begin with an empty directory", name)
	}
	return own, err
}

// note is what an image tells other agents.
type note struct {
	Boot uint64 `json:"boot"`
	// Crawl is the identity of the cluster's crawl; empty if the agent crawls alone.
	Crawl string `json:"crawl,omitempty"`
	Left  bool   `json:"left,omitempty"`
	// Over means that all agents had finished the crawl.
	Over bool `json:"over,omitempty"`
	// Heirs, of an agent that has left, are the states of other agents that have what it knew.
	Heirs map[string]heir `json:"heirs,omitempty"`
}

// A heir names the first state of a process of an agent that has all that another agent gave to it.
type heir struct {
	Boot   uint64 `json:"boot"`
	Number int64  `json:"number"`
}

// A Keeper saves the states of an agent. Open makes it, and one goroutine owns it.
type Keeper struct {
	Series
	Every time.Duration // from one state to the next one
	Boot  uint64        // the number of the agent's start; 0 if it crawls alone
	// Members tells the identity of the cluster's crawl; nil: the agent crawls alone.
	Members interface{ Crawl() rpc.ID }
	Events  interface {
		Write(kind string, fields ...report.Field)
	}
	// Replicated means that the others go on with the hosts of an agent that is lost.
	Replicated bool
	// Orphans are those that this agent adopts; nil: it adopts none.
	Orphans *Orphans
	// Heirs are the agents that were there when this one ended, this one included, with the numbers of their starts.
	Heirs map[string]uint64
	saver *image.Saver
	place image.Place
	owed  owed
	// restored means that Fetch has made the directory for this run.
	restored bool
}

// Open claims the series for the crawl in Dir. A crawl that is resumed here goes on with its claim; the error is an
// *input.ConfigError if another process has claimed the series since. A new one is refused if the store has a state of
// its name. If overwrite is set, Open says that the state will be replaced. The caller has locked Dir. Open blocks
// until no other process can fetch pages for the series.
func (k *Keeper) Open(ctx context.Context, resume, overwrite bool) (err error) {
	if k.place, err = k.open(k.Agent, object.Config{Waits: k.Notes}); err != nil {
		return err
	}
	fsys := k.disk()
	var own ownRun
	if resume {
		if own, err = readRun(fsys, k.Dir); err != nil {
			return err
		}
	}
	c := claimConfig
	c.Holder = k.Agent
	switch there, err := image.Look(ctx, k.place); {
	case own.Run != "" && own.Store == k.place.Store.Location(""):
		if k.saver, err = image.Join(ctx, k.place, c, own.Run); errors.Is(err, image.ErrFenced) {
			return input.Errorf("another process continues the crawl of %s from the store (%v): the directory is out "+
				"of date. Stop that process and resume in an empty directory, or give another {dir}", k.Dir, err)
		}
		k.restored = own.Restored
		if err != nil || own.Alone && !own.Restored {
			return err
		}
		if !own.Alone { // a kill has ended the wait
			if err := k.await(ctx, k.place, k.saver, ownRun{Fetched: own.Fetched}); err != nil {
				return err
			}
		}
		return writeRun(fsys, k.Dir, k.place, k.saver, ownRun{Alone: true, Fetched: own.Fetched})
	case errors.Is(err, image.ErrNone):
	case err != nil && !errors.Is(err, image.ErrDamaged):
		return err
	case !overwrite:
		return input.Errorf("%s has a saved state of a crawl named %s (%s): continue it with {resume} in an empty "+
			"directory, or give another {dir}", k.Store.URL, k.Crawl, there.Taken.UTC().Format(time.RFC3339))
	case k.Notes != nil:
		k.Notes.Note(fmt.Sprintf("%s has a saved state of an earlier crawl named %s. This crawl begins anew: its "+
			"first state replaces that one. The segments of both crawls stay in the store, under that name",
			k.Store.URL, k.Crawl))
	}
	if k.saver, err = image.Claim(ctx, k.place, c); err != nil {
		return err
	}
	if err := k.await(ctx, k.place, k.saver, ownRun{}); err != nil {
		return err
	}
	return writeRun(fsys, k.Dir, k.place, k.saver, ownRun{Alone: true})
}

// writeRun writes own, with the store and the run of a saver.
func writeRun(fsys disk.FS, dir string, p image.Place, s *image.Saver, own ownRun) error {
	own.Store, own.Run = p.Store.Location(""), s.Hold().Run()
	b, err := json.Marshal(own)
	if err != nil {
		return err
	}
	return disk.WriteFile(fsys, filepath.Join(dir, runFile), append(b, '\n'))
}

// Unsure implements crawl.Claim: another process may have the crawl if the store has not confirmed the claim for 30 s.
func (k *Keeper) Unsure() string {
	if k.saver == nil || k.saver.Hold().Current() == nil {
		return ""
	}
	return "the store, which has not said for 30 s that no other process has taken over the crawl"
}

// Held implements crawl.Claim: the agents of a crawl that has come from the store wait for each other.
func (k *Keeper) Held() string {
	if k.Orphans == nil {
		return ""
	}
	return k.Orphans.holds()
}

// Unclaimed implements crawl.Claim.
func (k *Keeper) Unclaimed() string {
	if k.Orphans == nil {
		return ""
	}
	return k.Orphans.Unclaimed()
}

// cutAfter is how long visits may continue when the claim is unsure. The next holder waits for longer.
const cutAfter = 40 * time.Second

// Watch asks the store for the claim again and again. It returns when another process has claimed the series, or when
// the claim is unsure and visits do not end; then the agent must stop. While the claim is unsure and no visit is in
// progress, it waits for the store. It returns nil when ctx is done.
func (k *Keeper) Watch(ctx context.Context, a Agent) error {
	var unsure time.Time
	for {
		err := k.saver.Hold().Holds(ctx)
		now := clock.Or(k.Clock).Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !unsure.IsZero():
			unsure = time.Time{}
			k.Events.Write("claim-sure")
		case err == nil:
		case errors.Is(err, image.ErrFenced):
			return err
		case unsure.IsZero():
			unsure = now
			k.Events.Write("claim-unsure", report.F("error", err.Error()))
		case now.Sub(unsure) > cutAfter && a.Visiting():
			return err
		}
		if !clock.Pause(ctx, claimConfig.Lease/6) {
			return nil
		}
	}
}

// States are the newest saved states of other agents, by their names.
type States = map[string]outbox.Saved

// An Agent is the agent whose state is saved.
type Agent interface {
	// Cut calls take while the crawl's state is at rest, after it has told the cluster which states of other agents are
	// saved and has finished the files of the archive. ok is false if that is not possible now.
	Cut(ctx context.Context, saved States, take func() error) (ok bool, err error)
	// Visiting reports that visits are in progress.
	Visiting() bool
	// Others returns the names of the other agents.
	Others() []string
	// Stored waits until the store has the segments that have ended.
	Stored(ctx context.Context) error
}

// tryAgain is the wait after a state that could not be saved because the crawl's files were in use.
const tryAgain = 5 * time.Second

// firstAfter is the wait before the first state of a run. An agent without a state cannot take part in the crawl again.
const firstAfter = 2 * time.Second

// Run saves a state every Every until ctx is done. An error is told in an event, and the next state is tried in time.
func (k *Keeper) Run(ctx context.Context, a Agent) {
	for wait := min(firstAfter, k.Every); k.pause(ctx, a, wait); {
		wait = k.Every
		ok, err := k.Save(ctx, a)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			k.Events.Write("state-failed", report.F("error", err.Error()))
		case !ok:
			wait = min(tryAgain, k.Every)
		}
	}
}

// pause waits for d. It ends early if another agent goes away: it may have left, and then the states that the others
// have saved so far lack what it told them.
func (k *Keeper) pause(ctx context.Context, a Agent, d time.Duration) bool {
	const step = time.Second
	for there := a.Others(); d > 0; d -= step {
		if !clock.Pause(ctx, min(step, d)) {
			return false
		}
		now := a.Others()
		k.owed.see(now)
		if slices.ContainsFunc(there, func(name string) bool { return !slices.Contains(now, name) }) {
			return clock.Pause(ctx, step)
		}
		if there = now; k.owed.due() {
			return clock.Pause(ctx, min(tryAgain, d))
		}
	}
	return ctx.Err() == nil
}

// Save saves a state. ok is false if the crawl's files are in use.
func (k *Keeper) Save(ctx context.Context, a Agent) (ok bool, err error) {
	saved, others := States{}, a.Others()
	var settled []string
	for _, name := range k.owed.see(others) {
		v, n, err := k.read(ctx, name)
		if err != nil {
			return false, err
		}
		s := outbox.Saved{Boot: n.Boot, Number: uint64(v.Number), Left: n.Left}
		if !slices.Contains(others, name) {
			if v.Number == 0 { // no state of it will ever have a link
				s.Left = true
			}
			if s.Left || n.Over {
				settled = append(settled, name)
			}
		}
		saved[name] = s
	}
	var cut *image.Cut
	ok, err = a.Cut(ctx, saved, func() (err error) {
		cut, err = k.saver.Take(k.disk(), k.Dir, files)
		return err
	})
	if err != nil || !ok {
		return false, err
	}
	k.owed.settle(settled)
	err = a.Stored(ctx)
	if err == nil {
		// The segments have lines that were logged after the cut.
		err = cut.Extend(k.disk(), k.Dir, logs{})
	}
	if err != nil {
		return false, errors.Join(err, cut.Close())
	}
	return true, k.send(ctx, cut, note{})
}

// stopping bounds Last after a signal: somebody waits for the end of the process.
const stopping = 20 * time.Second

// An End says how the run of an agent ended.
type End struct {
	// Signalled means that a person waits for the end of the process.
	Signalled bool
	// Left means that the other agents have what this one knew, and Over that all agents have finished the crawl.
	Left, Over bool
}

// Last saves the state of an agent that has ended. It gives the series up, so that the next process need not wait.
func (k *Keeper) Last(e End) error {
	ctx := context.Background()
	if e.Signalled {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, stopping)
		defer end()
	}
	for n := 1; ; n++ {
		cut, err := k.saver.Take(k.disk(), k.Dir, files)
		if err == nil {
			err = k.sendLast(ctx, cut, e)
		}
		if err == nil {
			return k.saver.Release(ctx)
		}
		if n == lastTries || ctx.Err() != nil || errors.Is(err, image.ErrFenced) {
			return fmt.Errorf("the state could not be saved in %s: %w", k.Store.URL, err)
		}
		k.Events.Write("state-failed", report.F("error", err.Error()))
		if !clock.Pause(ctx, tryAgain) {
			return ctx.Err()
		}
	}
}

// lastTries is how often Last tries.
const lastTries = 3

func (k *Keeper) sendLast(ctx context.Context, cut *image.Cut, e End) error {
	n := note{Left: e.Left, Over: e.Over}
	if e.Left {
		heirs, err := k.heirs(ctx)
		if err != nil {
			return errors.Join(err, cut.Close())
		}
		n.Heirs = heirs
	}
	return k.send(ctx, cut, n)
}

func (k *Keeper) send(ctx context.Context, cut *image.Cut, n note) (err error) {
	n.Boot, n.Crawl = k.Boot, k.identity()
	if cut.Note, err = json.Marshal(n); err != nil {
		return err
	}
	v, err := k.saver.Save(ctx, cut)
	if err == nil {
		k.Events.Write("state-saved", report.F("number", v.Number), report.F("files", v.Files),
			report.F("bytes", v.Bytes), report.F("sent", v.Moved))
	}
	return err
}

// identity returns the identity of the cluster's crawl; "": it is not known, or the agent crawls alone.
func (k *Keeper) identity() string {
	if k.Members == nil || k.Members.Crawl() == (rpc.ID{}) {
		return ""
	}
	return k.Members.Crawl().String()
}

// read returns the newest state of an agent, and its note. Both are zero if there is none that can be read.
func (k *Keeper) read(ctx context.Context, agent string) (v image.Saved, n note, err error) {
	if v, n, err = k.tryRead(ctx, agent); isUnreadable(err) { // a damaged one is mended by the agent's next claim
		return image.Saved{}, note{}, nil
	}
	return v, n, err
}
