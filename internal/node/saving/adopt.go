package saving

import (
	"context"
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Orphans are the series of the crawl that no process continues, and that have what the other agents need. One agent of
// the cluster adopts them: the first by name of those that are up. It runs the agent of a series from a directory of
// its own, until that agent has left.
//
//	List -> Stand, again and again -> unchanged for grace, and no agent has the name -> Fetch -> Heir.Adopt -> left
//
// With replicas, the agents that are there have gone on with the hosts of one that was lost, and know what it has
// fetched since its last state. Then a series is an orphan only if the agents have come from the store, and its agent
// has not.
//
// An agent that has come from the store begins no visit while there are orphans whose agents have not come: they know
// which pages are fetched already. So all such agents look for orphans at first, and then only the one that adopts
// them.
//
// Two agents may adopt at the same time if they do not see each other. Fetch claims a series only if nobody has claimed
// it since it was looked at. After a kill nobody holds the series, so it is adopted again.
type Orphans struct {
	keeper *Keeper
	heir   Heir
	series map[string]*orphan // by agent; Run alone has it

	running chan struct{} // has an entry while an adopted agent runs

	mu      sync.Mutex // guards all below
	looking bool       // this agent looks
	looked  bool       // and has done so once
	names   []string   // the orphans
	asked   time.Time  // when the crawl would have ended last
	unseen  bool       // the agent of an orphan has not come in this run
	began   time.Time  // when holds was asked first
	free    bool       // visits may begin
}

// A Heir is the agent that adopts orphans. Safe for concurrent use.
type Heir interface {
	// First reports that this agent is the one that adopts.
	First() bool
	// Boots returns all agents that are there, this one included, with the numbers of their starts.
	Boots() map[string]uint64
	// CanAdopt returns an error if this agent cannot run another one.
	CanAdopt(agent string) error
	// Adopt runs an agent from its directory until the other agents have what it knew.
	Adopt(ctx context.Context, agent, dir string) error
}

// An orphan is a series of an agent that is not there.
type orphan struct {
	standing image.Standing
	since    time.Time // when it was first seen so
	known    bool      // note is that of the standing
	note     note
	seen     bool // its agent was there in this run
	ours     bool // this agent has begun to adopt it
	failed   bool // an event has told why it cannot be adopted
	tries    int  // to adopt it that found its objects damaged or missing
	// unreadable means that nobody can adopt it.
	unreadable bool
}

const (
	// lookEvery is the time from one look at the series to the next one.
	lookEvery = 30 * time.Second
	// grace is how long nothing must have changed before a series is adopted. An agent that resumes has claimed it by
	// then.
	grace = 2 * time.Minute
	// holdFor bounds how long orphans keep visits from beginning, and lookWhile is lookEvery meanwhile.
	holdFor   = 10 * time.Minute
	lookWhile = 10 * time.Second
	// idleFor is how long ago the crawl may have been about to end, for it to count as idle.
	idleFor = 10 * time.Second
	// atOnce is how many series are fetched at once.
	atOnce = 8
)

// AdoptedDir is the folder of a crawl directory with the directories of agents that this one has adopted.
const AdoptedDir = "state/adopted"

// NewOrphans returns the orphans of a keeper's crawl, for Run.
func NewOrphans(k *Keeper, h Heir) *Orphans {
	return &Orphans{keeper: k, heir: h, series: map[string]*orphan{}, running: make(chan struct{}, 1)}
}

// Claimed reports that the crawl may end: no series waits for an agent, and other agents have the links that this one
// gave to agents that have gone. It is asked when the crawl would end.
func (o *Orphans) Claimed() bool {
	owes, first := !o.keeper.Replicated && len(o.keeper.owed.gone()) > 0, o.heir.First()
	o.mu.Lock()
	defer o.mu.Unlock()
	if first {
		o.asked = clock.Or(o.keeper.Clock).Now()
	}
	return !owes && (!first || o.looking && o.looked && len(o.names) == 0)
}

// holds says in words why no visit may begin; "": visits may.
func (o *Orphans) holds() string {
	now := clock.Or(o.keeper.Clock).Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = now
	}
	if o.free = o.free || !o.keeper.restored || o.looked && !o.unseen || now.Sub(o.began) >= holdFor; o.free {
		return ""
	}
	return "the saved states of other agents, which are to be continued or taken over first"
}

// Unclaimed says in words which series wait for an agent; "": none, or another agent looks for them.
func (o *Orphans) Unclaimed() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch len(o.names) {
	case 0:
		return ""
	case 1:
		return "the saved state of agent " + o.names[0] + ", which no agent continues yet"
	}
	return "the saved states of agents " + strings.Join(o.names, ", ") + ", which no agents continue yet"
}

// Run looks for orphans and adopts them until ctx is done.
func (o *Orphans) Run(ctx context.Context) {
	const step = time.Second
	if err := o.keeper.disk().RemoveAll(o.dir("")); err != nil {
		o.tell("adoption-failed", report.F("error", err.Error()))
		return
	}
	for wait := time.Duration(0); clock.Pause(ctx, step); wait -= step {
		boots := o.heir.Boots()
		for name := range boots {
			if s := o.series[name]; s != nil {
				s.seen = true
			} else {
				o.series[name] = &orphan{seen: true}
			}
		}
		first, held := o.heir.First(), o.holds() != ""
		o.mu.Lock()
		was := o.looking
		if o.looking = first || held && len(boots) > 0; !o.looking {
			o.looked, o.names = false, nil
		}
		looking := o.looking
		o.mu.Unlock()
		if !looking || was && wait > 0 {
			continue
		}
		if wait = lookEvery; held {
			wait = lookWhile
		}
		if err := o.look(ctx); err != nil || !first {
			continue
		}
		if due := o.due(); len(due) > 0 {
			o.adoptAll(ctx, due)
			wait = 0
		}
	}
}

func (o *Orphans) dir(agent string) string { return filepath.Join(o.keeper.Dir, AdoptedDir, agent) }

func (o *Orphans) tell(kind string, fields ...report.Field) { o.keeper.Events.Write(kind, fields...) }

// look finds the orphans, and drops the series that nobody needs any more.
func (o *Orphans) look(ctx context.Context) error {
	agents, err := o.keeper.agents(ctx, o.keeper.place.Store)
	if err != nil {
		return err
	}
	there := o.heir.Boots()
	var orphans []string
	for _, name := range agents {
		if _, is := there[name]; is {
			continue
		}
		s := o.series[name]
		if s == nil {
			s = &orphan{}
			o.series[name] = s
		}
		if err := o.stand(ctx, name, s); err != nil {
			return err
		}
		if s.unreadable || s.known && o.foreign(s.note) {
			continue
		}
		// Of a crawl that has ended, the agents that come from the store need what the others have fetched.
		wanted := s.standing == (image.Standing{}) ||
			s.standing.Image > 0 && (!s.note.Over || o.keeper.restored && !s.seen)
		if wanted && s.note.Left {
			var done bool
			if done, wanted, err = o.bequest(ctx, s.note.Heirs, there); err == nil && done {
				err = o.drop(ctx, name, s)
			}
			if err != nil {
				return err
			}
		}
		if wanted && (!o.keeper.Replicated || o.keeper.restored && !s.seen) {
			orphans = append(orphans, name)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range orphans {
		if !slices.Contains(o.names, name) {
			o.tell("state-unclaimed", report.F("agent", name))
		}
	}
	o.names, o.looked = orphans, true
	o.unseen = slices.ContainsFunc(orphans, func(name string) bool { return !o.series[name].seen })
	return nil
}

// foreign reports that a state is that of another crawl with the same name: of one that was replaced since, or of an
// agent that crawled alone.
func (o *Orphans) foreign(n note) bool {
	return n.Boot == 0 || n.Crawl != "" && n.Crawl != o.keeper.identity()
}

// stand brings an orphan up to date.
func (o *Orphans) stand(ctx context.Context, name string, s *orphan) error {
	p := o.keeper.place
	p.Prefix = o.keeper.prefix(name)
	now, err := image.Stand(ctx, p)
	switch {
	case err == nil && now == image.Standing{}:
		err = errNoPointer
	case err != nil && !isUnreadable(err):
		return err
	}
	if now.Image != s.standing.Image {
		s.unreadable, s.tries = false, 0
	}
	if isForeign(err) {
		s.standing = now
		o.giveUp(name, s, err)
		return nil
	}
	if s.since.IsZero() || now != s.standing {
		s.standing, s.since, s.known, s.note = now, clock.Or(o.keeper.Clock).Now(), false, note{}
	}
	if !s.known && now.Image > 0 {
		v, n, err := o.keeper.tryRead(ctx, name)
		switch {
		case isForeign(err):
			o.giveUp(name, s, err)
			return nil
		case err != nil && !isUnreadable(err):
			return err
		}
		if s.known = err == nil && v.Number == now.Image; s.known {
			s.note = n
		}
	}
	return nil
}

// bequest says what has become of what an agent that has left gave to its heirs. saved reports that the states of all
// of them have it. lost reports that the process of an heir is gone, which may have had it in no state. there has the
// agents that are there, with the numbers of their starts.
func (o *Orphans) bequest(ctx context.Context, heirs map[string]heir, there map[string]uint64) (saved, lost bool,
	err error) {
	if len(heirs) == 0 {
		return false, true, nil
	}
	saved = true
	for _, name := range slices.Sorted(maps.Keys(heirs)) {
		v, n, err := o.keeper.read(ctx, name)
		if err != nil {
			return false, false, err
		}
		if h := heirs[name]; !n.Left && (n.Boot != h.Boot || v.Number < h.Number) {
			saved = false
			lost = lost || there[name] != h.Boot
		}
	}
	return saved, lost, nil
}

// heirs returns the states that will have what this agent gave to others.
func (k *Keeper) heirs(ctx context.Context) (map[string]heir, error) {
	heirs := map[string]heir{}
	for name, boot := range k.Heirs {
		if name == k.Agent {
			continue
		}
		v, _, err := k.read(ctx, name)
		if err != nil {
			return nil, err
		}
		// The next one may have been begun before the last links arrived.
		heirs[name] = heir{Boot: boot, Number: v.Number + 2}
	}
	return heirs, nil
}

// drop removes the series of an agent that has left. Its directory can still be resumed.
func (o *Orphans) drop(ctx context.Context, name string, s *orphan) error {
	p, c := o.keeper.place, claimConfig
	p.Prefix = o.keeper.prefix(name)
	c.Holder, c.Generation = o.keeper.Agent, s.standing.Generation
	saver, err := image.Join(ctx, p, c, s.standing.Run)
	if err == nil {
		err = saver.Drop(ctx)
	}
	if errors.Is(err, image.ErrFenced) { // another one has it now
		return nil
	}
	if err == nil {
		o.tell("state-removed", report.F("agent", name))
	}
	return err
}

// due returns the orphans that are to be adopted now, at most atOnce. If this agent has come from the store itself, the
// others have lost their machines, too, and those that do not come at once are adopted. Otherwise an agent may be away
// with its directory, so it is adopted only when the crawl would end without it.
func (o *Orphans) due() (names []string) {
	now := clock.Or(o.keeper.Clock).Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	idle := !o.asked.IsZero() && now.Sub(o.asked) < idleFor
	for _, name := range o.names {
		s := o.series[name]
		if now.Sub(s.since) >= grace && (idle || s.ours || o.keeper.restored && !s.seen) {
			names = append(names, name)
		}
	}
	return names[:min(len(names), atOnce)]
}

// adoptAll adopts orphans. It fetches them together, because each waits for the process before it, and runs one after
// the other.
func (o *Orphans) adoptAll(ctx context.Context, names []string) {
	var all sync.WaitGroup
	for _, name := range names {
		s := o.series[name]
		all.Go(func() { o.adopt(ctx, name, s) })
	}
	all.Wait()
}

// adopt runs an orphan until it has left. If that fails, it is tried again after the grace.
func (o *Orphans) adopt(ctx context.Context, name string, s *orphan) {
	k := o.keeper
	err := o.heir.CanAdopt(name)
	if err == nil {
		s.ours = true
		o.tell("state-adopting", report.F("agent", name))
		series := k.Series
		series.Agent, series.Dir, series.Generation, series.Notes = name, o.dir(name), s.standing.Generation, nil
		err = k.disk().RemoveAll(series.Dir)
		if err == nil {
			_, err = Fetch(ctx, series)
		}
		if err == nil {
			o.running <- struct{}{}
			err = o.heir.Adopt(ctx, name, series.Dir)
			<-o.running
		}
		if err == nil {
			err = k.disk().RemoveAll(series.Dir)
		}
	}
	if isUnreadable(err) {
		s.tries++
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, image.ErrFenced):
	case s.tries >= adoptTries:
		o.giveUp(name, s, err)
	case err != nil && !s.failed:
		s.failed = true
		o.tell("adoption-failed", report.F("agent", name), report.F("error", err.Error()))
	case err == nil:
		s.failed = false
		o.tell("state-adopted", report.F("agent", name))
	}
	s.since = time.Time{} // look anew
}

// agents returns the agents that have a series of the crawl.
func (s *Series) agents(ctx context.Context, store *object.Store) ([]string, error) {
	return below(ctx, store, path.Join(warc.CrawlData, s.Crawl, "state")+"/")
}

// below returns the names of the folders below a folder of a store, with a request for each.
func below(ctx context.Context, store *object.Store, root string) (names []string, err error) {
	for after := root; len(names) < maxNames; {
		page, err := store.List(ctx, root, after, 1)
		if err != nil || len(page.Objects) == 0 {
			return names, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(page.Objects[0].Key, root), "/")
		names = append(names, name)
		after = root + name + "0" // after all keys with a slash
	}
	return names, nil
}

// maxNames bounds the folders that below returns.
const maxNames = 4096

// ofCluster returns an *input.ConfigError if an agent that is to crawl alone finds the series of a cluster: in the
// crawl of a name, or if any is set, in any other crawl.
func (s *Series) ofCluster(ctx context.Context, store *object.Store, name string, any bool) error {
	if s.Agent != "" {
		return nil
	}
	crawls := []string{disk.SafeName(name)}
	if any {
		all, err := below(ctx, store, warc.CrawlData+"/")
		if err != nil {
			return err
		}
		crawls = append(crawls, all...)
	}
	for _, crawl := range crawls {
		of := *s
		of.Crawl = crawl
		agents, err := of.agents(ctx, store)
		if err != nil {
			return err
		}
		if len(agents) > 0 && !slices.Contains(agents, alone) {
			return input.Errorf("%s has the states of the agents of a cluster, %s, which crawled %s: resume one or "+
				"more of them, each with its {name}, {listen} and {join}. They take over the states of the others",
				s.Store.URL, strings.Join(agents, ", "), crawl)
		}
	}
	return nil
}

// Newest describes the newest state of a series.
func Newest(ctx context.Context, s Series) (image.Saved, error) {
	p, err := s.open(s.Agent, object.Config{})
	if err != nil {
		return image.Saved{}, err
	}
	return image.Look(ctx, p)
}
