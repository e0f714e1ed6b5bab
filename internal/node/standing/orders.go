package standing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// ordersAgain is how long an agent waits before it tries again to put orders in force.
const ordersAgain = 2 * time.Second

// Notes receive messages for the operator. Safe for concurrent use.
type Notes interface{ Note(text string) }

// Config is what Orders need of their agent.
type Config struct {
	FS        disk.FS
	File      string // of the orders
	Name      string // of this agent, in orders
	Clock     clock.Clock
	Events    *report.Events
	Notes     Notes
	Sheets    *sheet.Live      // the settings of parts of the web
	Scope     scope.Config     // of the crawl: applications stay within its exclusions
	Walks     bool             // the strategy is a walk, which has no applications
	Blacklist string           // a file; empty: none
	Rate      rate.Schedule    // if no order stands
	Members   *members.Members // nil: this agent is alone
	Grantor   shares.Placed    // of the rate; nil: this agent is alone
}

// Orders are the operators' orders: durable in a file, in force at this agent, and told to the others.
// They implement operate.Apps, operate.Orders and operate.Viewer.
type Orders struct {
	// Force has what is in force.
	*verbs.Force
	// Rates keep the limit of the whole crawl's rate, with the Limiter of the crawl loop.
	Rates   *shares.Rates
	Limiter *rate.Limiter

	cfg Config
	set *orders.Set

	turn      chan struct{} // capacity 1: an item in it guards the file, what is in force, and the fields below
	kept      [32]byte      // the digest of the set that is durable and in force; zero: not all is in force
	failed    string        // why the set could not be kept at the last try; empty: it could
	blacklist *blacklist    // that is in force
	unknown   []string      // verbs of orders that stand, of which the operator was told that this version lacks them
	// looked tells which state of the blacklist's file was read last. Only Watch's goroutine uses it.
	looked Stamp

	toldMu sync.Mutex // guards told
	told   map[string]toldOrders
}

// Load reads the orders of earlier runs, and puts delays in force: they hold for hosts that rest since then.
func Load(cfg Config) (*Orders, error) {
	set, err := orders.Load(cfg.FS, cfg.File)
	if err != nil {
		return nil, fmt.Errorf("%w; to continue without the operators' orders, remove %s", err, cfg.File)
	}
	s := &Orders{cfg: cfg, set: set, turn: make(chan struct{}, 1), told: map[string]toldOrders{}}
	s.Rates, s.Limiter = shares.New(shares.Config{Clock: cfg.Clock, Schedule: cfg.Rate, Events: cfg.Events,
		Members: cfg.Members, Grantor: cfg.Grantor})
	s.Force = verbs.NewForce(verbs.Settings{Clock: cfg.Clock, Sheets: cfg.Sheets, Scope: cfg.Scope, Walks: cfg.Walks,
		Rates: s.Rates}, set.Standing())
	return s, nil
}

// Open reads the blacklist, takes back the blocks and the exclusions that unblock names, and puts all in force.
// notBlocked lists the names that were not blocked. The error is an *input.ConfigError for the blacklist and for
// unblock.
func (s *Orders) Open(c verbs.Crawl, unblock []string) (notBlocked []string, err error) {
	s.Crawl = c
	s.looked = s.BlacklistStamp()
	if s.blacklist, err = readBlacklist(s.cfg.FS, s.cfg.Blacklist); err != nil {
		return nil, err
	}
	for _, o := range s.set.Standing() {
		if verbs.IsPause(&o) {
			by := ""
			if o.By != "" {
				by = " by " + o.By
			}
			s.cfg.Notes.Note(fmt.Sprintf("The crawl is paused by the operator's order %s of %s%s. \"orbweaver ctl "+
				"resume\" takes it back; the crawl needs an API for that.", o.ID(), o.At.Format(time.RFC3339), by))
		}
	}
	if notBlocked, err = s.unblock(unblock); err != nil {
		return notBlocked, err
	}
	s.kept = s.set.Digest()
	if err := s.obey(context.Background()); err != nil {
		return notBlocked, err
	}
	c.HeedBars()
	return notBlocked, nil
}

// byStart is the By of orders that the start of a run gives.
const byStart = "the start"

// CheckUnblock returns an *input.ConfigError if one of the names that Open is to unblock is wrong.
func CheckUnblock(names []string) error {
	for _, text := range names {
		if err := verbs.CheckUnblock(text); err != nil {
			return input.Errorf("{unblock}: %v", err)
		}
	}
	return nil
}

// unblock takes back blocks and exclusions. It returns the names that were not blocked.
func (s *Orders) unblock(names []string) (notBlocked []string, err error) {
	if err := CheckUnblock(names); err != nil {
		return nil, err
	}
	var back []orders.Order
	var blocks []string
	for _, text := range names {
		if off, ok := verbs.Include(s.set.Standing(), text); ok {
			back = append(back, off)
			continue
		}
		if about, _, err := input.About(text); err == nil {
			blocks = append(blocks, about)
		} else { // a pattern
			notBlocked = append(notBlocked, text)
		}
	}
	slices.Sort(blocks)
	for _, about := range slices.Compact(blocks) {
		if verbs.IsStanding(s.set.Standing(), verbs.VerbBlock, about) {
			back = append(back, orders.Order{Verb: verbs.VerbBlock, About: about, Off: true})
		} else {
			notBlocked = append(notBlocked, about)
		}
	}
	if len(back) == 0 {
		return notBlocked, nil
	}
	for i := range back {
		back[i].By = byStart
	}
	if _, err := s.give(back); err != nil {
		return notBlocked, err
	}
	return notBlocked, s.set.Save(s.cfg.FS, s.cfg.File)
}

// give adds orders to the set of this agent, before it is durable and in force.
func (s *Orders) give(list []orders.Order) (given []orders.Order, err error) {
	if given, err = s.set.GiveTogether(list, s.cfg.Name, s.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	for _, o := range given {
		s.note(o)
	}
	return given, nil
}

// keep makes the set durable and puts it in force, unless it is already. An order that an earlier call could not keep
// is kept by the next one.
func (s *Orders) keep(ctx context.Context) (err error) {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	digest := s.set.Digest()
	if digest == s.kept {
		return nil
	}
	defer func() { s.tellKept(err) }()
	if err := s.set.Save(s.cfg.FS, s.cfg.File); err != nil {
		return err
	}
	if err := s.obey(ctx); err != nil {
		return err
	}
	s.kept = digest // an order that came meanwhile changes the digest, and its caller keeps it
	return nil
}

// begin takes the turn, and end gives it back. ctx bounds the wait.
func (s *Orders) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("other orders are being put in force: %w", ctx.Err())
	}
}

func (s *Orders) end() { <-s.turn }

// tellKept writes to the events that the set could not be kept, and why, or that it is kept again. It is this call's
// turn.
func (s *Orders) tellKept(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.failed || errors.Is(err, context.Canceled) {
		return
	}
	if s.failed = text; err != nil {
		s.cfg.Events.Write("orders-failed", report.F("error", text))
	} else {
		s.cfg.Events.Write("orders-kept")
	}
}

// Watch puts orders in force that could not be put in force when they came, and a blacklist whose file changes. end
// ends that.
func (s *Orders) Watch() (end func()) {
	if s.cfg.Blacklist != "" {
		s.tellBlacklist(s.blacklist)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(ordersAgain)
		defer tick.Stop()
		last := s.looked
		for {
			select {
			case <-tick.C:
				_ = s.keep(ctx) // the events have its error
				if s.cfg.Blacklist != "" {
					last = s.LookAtBlacklist(ctx, last)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// obey puts the orders that stand and the blacklist in force. It is this call's turn. After an error, all is called
// again: some of it may be in force.
func (s *Orders) obey(ctx context.Context) error {
	s.OtherBars, s.OtherExclusions = s.blacklist.bars, s.blacklist.patterns
	standing := s.set.Standing()
	for _, o := range standing {
		if verbs.Unknown(o) && !slices.Contains(s.unknown, o.Verb) {
			s.unknown = append(s.unknown, o.Verb)
			s.cfg.Events.Write("verb-unknown", report.F("verb", o.Verb), report.F("id", o.ID()))
			s.cfg.Notes.Note(fmt.Sprintf("This version does not know the verb of order %s, %s. The agent keeps such "+
				"orders and passes them on, but does not obey them: install the version of the other agents.", o.ID(),
				verbs.Text(o)))
		}
	}
	return s.Apply(ctx, standing)
}

// note writes an order to the events.
func (s *Orders) note(o orders.Order) {
	s.cfg.Events.Write("order", report.F("id", o.ID()), report.F("verb", o.Verb), report.F("about", o.About),
		report.F("value", o.Value), report.F("off", o.Off), report.F("by", o.By), report.F("why", o.Why),
		report.F("agent", o.Agent))
}

func (s *Orders) CheckApplication(d verbs.Application) error {
	return s.Applications.Check(d, s.set.Standing())
}

func (s *Orders) Standing() []orders.Order { return s.set.Standing() }

func (s *Orders) Past() []orders.Order { return s.set.Past() }

func (s *Orders) Give(ctx context.Context, list ...orders.Order) (given []orders.Order, told map[string]error,
	err error) {
	if given, err = s.give(list); err != nil {
		return nil, nil, err
	}
	if err := s.keep(ctx); err != nil {
		return given, nil, fmt.Errorf("order %s is given, but not yet durable and in force at this agent, which tries "+
			"again every %s: %w", given[0].ID(), ordersAgain, err)
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	told = s.spread(ctx, true)
	s.toldMu.Lock()
	defer s.toldMu.Unlock()
	for name, err := range told {
		if err == nil {
			told[name] = lacking(given, s.told[name].unknown)
		}
	}
	return given, told, nil
}

// WhyPaused says, for people, which orders pause the crawl.
func (s *Orders) WhyPaused() string {
	var why []string
	for _, o := range s.set.Standing() {
		if !verbs.IsPause(&o) {
			continue
		}
		text := "order " + o.ID()
		if o.By != "" {
			text += " of " + o.By
		}
		text += ", " + o.At.UTC().Format("2006-01-02 15:04:05Z")
		if o.Why != "" {
			text += ": " + o.Why
		}
		why = append(why, text)
	}
	return strings.Join(why, "; ")
}

// Bars tells what keeps links from being fetched: orders, and the file of the blacklist if it has entries. Only for a
// crawl that has ended.
func (s *Orders) Bars() (byOrders bool, blacklist string) {
	if s.blacklist.len() > 0 {
		blacklist = s.cfg.Blacklist
	}
	return verbs.Bars(s.set.Standing()), blacklist
}
