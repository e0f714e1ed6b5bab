package crawl

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// want asks the Planner for URLs and queues them. wake is the time to ask again; zero means
// when a visit has ended.
func (c *Crawler) want(now time.Time) (wake time.Time) {
	quota := quotaMax
	for c.planner != nil && c.fatal == nil && len(c.revisiting) < againMax {
		w, wake, err := c.planner.Next(now)
		c.nextWanted = wake
		if err != nil {
			c.fatal = fmt.Errorf("strategy: %w", err)
			return time.Time{}
		}
		if w == nil {
			return wake
		}
		if w.Before == nil {
			if !c.cluster.Recall(w.Link) {
				c.takeIn(w.Link)
			}
			continue
		}
		off, err := c.moveState(w, now)
		if !off && err == nil {
			off, err = c.wantAgain(w, now)
		}
		if c.fatal = err; off {
			if quota--; quota == 0 {
				return now // let other work of the dispatcher run first
			}
		}
	}
	return time.Time{}
}

// carryWait is the pause before a Planner's state that cannot be sent to its agent is looked at again.
const carryWait = time.Second

// moveState sends the Planner's state of a URL to the agent that crawls the URL's host. off reports
// that it is not this agent.
func (c *Crawler) moveState(w *Wanted, now time.Time) (off bool, err error) {
	m, ok := c.planner.(Mover)
	if !ok {
		return false, nil
	}
	if _, mine := c.cluster.Owner(w.Link.URL.Host()); mine {
		return false, nil
	}
	if !c.cluster.MayCarry(w.Link.URL.Host()) {
		err = m.PutOff(w, now.Add(carryWait))
	} else if planned, e := m.TakeOut(w); e != nil {
		err = e
	} else {
		c.cluster.Carry(w.Link, planned)
	}
	if err != nil {
		err = fmt.Errorf("strategy: %w", err)
	}
	return true, err
}

// takeIn accepts one link that does not come from a page.
func (c *Crawler) takeIn(l link.Link) {
	var ls Links
	ls.add(l, l.Key(), c.notOurs(l.URL))
	c.intake(&ls)
	c.append()
}

// refuse tells the Planner that a link will not be fetched, although it is in scope and new.
func (c *Crawler) refuse(l link.Link) error {
	if c.planner == nil || l.App() != "" {
		return nil
	}
	if _, err := c.planner.Visited(&Visit{Link: l, Outcome: Refused}); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	return nil
}

// visited tells the Planner how the visits to a URL ended, and puts the Planner's state of the
// URL into the finish.
func (c *Crawler) visited(v *visit, f *state.Finish, now time.Time) {
	if c.planner == nil || v.task.Link.App() != "" {
		return
	}
	l := v.task.Link
	visit := Visit{
		Link: l, Outcome: v.outcome, Status: v.status, Began: v.began, Now: now,
		Again: v.before != nil, Unchanged: v.unchanged(), Compared: v.compared(),
		Response: Before{If: v.validators, Print: v.print}, Modified: v.modified, Offered: v.offered,
		Plain: v.plain,
	}
	visit.Response.Original, visit.Response.Digest = v.written.Original, v.written.BodyDigest
	if v.before != nil {
		c.revisited(l)
		f.Flags |= state.FlagAgain
		switch {
		case visit.Unchanged:
			f.Flags |= state.FlagUnchanged
		case v.outcome == Fetched && !visit.Compared:
			f.Flags |= state.FlagUnknown
		}
		if v.status == 304 {
			visit.Response = *v.before
			visit.Response.If = v.before.If.Renew(v.validators)
		}
	}
	state, err := c.planner.Visited(&visit)
	if err != nil {
		c.fatal = fmt.Errorf("strategy: %w", err)
		return
	}
	f.State = state
}

// unchanged reports that a page that was visited again has not changed.
func (v *visit) unchanged() bool {
	return v.compared() && (v.confirmed() || v.print == v.before.Print)
}

// followedElsewhere reports that the page is visited again, has not changed, and that another agent has its earlier
// version and has followed its links.
func (v *visit) followedElsewhere() bool { return v.isElsewhere() && v.unchanged() }

// isElsewhere reports that the page is visited again, and that another agent has its earlier version.
func (v *visit) isElsewhere() bool {
	b := v.before
	return b != nil && b.Original.ID == [16]byte{} && !b.Original.Date.IsZero()
}

// compared reports whether the two contents can be compared: both are complete, or both were
// cut and something comparable is known of them.
func (v *visit) compared() bool {
	b := v.before
	return b != nil && v.outcome == Fetched &&
		(v.confirmed() || v.print != 0 && b.Print != 0 && (v.print^b.Print)&printCut == 0)
}

// confirmed reports that the server confirmed the earlier content (304).
func (v *visit) confirmed() bool {
	return v.before != nil && v.outcome == Fetched && v.status == 304 && !v.before.If.IsZero()
}

// fingerprint records what the next response to the same URL is compared with. body is the
// decoded content, or nil if it is not needed.
func (v *visit) fingerprint(r *fetch.Response, body []byte, cut bool) {
	v.validators, v.modified = fetch.ConditionOf(r), fetch.LastModified(r.Header)
	to, redirect := fetch.Redirect(r)
	switch {
	case redirect:
		v.print = printOf(r.Status, []byte(to))
	case r.Status/100 != 2:
		v.print = printOf(r.Status, nil) // error pages contain the time and other changing text
	case r.Truncated != "":
		v.print = printOfCut(r, body)
	case cut: // the archive reads the whole body
		v.print, v.cut = 0, true
	default:
		v.print = printOf(200, body)
	}
}

// printCut marks the print of an incomplete content.
const printCut = 1

// printOfCut returns the print of an incomplete content: of the server's validators, or, if the
// crawl cut the content at its own bound, of the bytes up to the bound. It returns 0 if the
// content cannot be compared, because the next response may end elsewhere.
func printOfCut(r *fetch.Response, body []byte) uint64 {
	etag, modified := r.Header.Get("ETag"), r.Header.Get("Last-Modified")
	switch {
	case etag != "" || modified != "":
		return printOf(0, []byte(etag+"\n"+modified)) | printCut
	case r.Truncated == fetch.TruncatedLength:
		return printOf(200, body) | printCut
	}
	return 0
}

func printOf(status int, content []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.Write(content)
	d.Write(binary.LittleEndian.AppendUint32(nil, uint32(status)))
	return max(d.Sum64()&^printCut, 2)
}

// follow asks the Strategy about a link on v's page, and judges, offers or drops it.
func (c *Crawler) follow(v *visit, l link.Link, k link.Key) {
	if v.app != nil {
		c.followForApp(v, l, k)
		return
	}
	if c.reader != nil && c.isKnown(v, k) {
		return
	}
	if c.Strategy != nil {
		// The Strategy may change the link. It gets a copy in the visit: a parameter whose address
		// goes to an interface method would be moved to the heap for every link of every page.
		v.link = l
		choice := c.Strategy.Follow(&v.shown, &v.link)
		l = v.link
		switch choice {
		case Take:
			if c.isKnown(v, k) {
				return
			}
		case Offer:
			if c.planner != nil && c.Scope.Judge(l).In {
				v.offered = append(v.offered, l)
			}
			return
		default:
			return
		}
	}
	if c.staysHere(v, l) {
		return
	}
	if to, away := c.destination(v, k); away {
		l.SetDestination(to)
		k = k.To(to)
	}
	c.judge(&v.Links, l, k)
}

// A lastStates finds the last finish of each URL that has a Planner's state. While the journal is read,
// it counts the states of each URL and adds them to a Spool; when the Spool is read, it counts down. The
// zero lastStates is for a crawl without a Planner.
type lastStates map[link.Key]int

// The numbers in a Spool of states that are in a snapshot and in a finish.
const (
	inSnapshot = iota
	inFinish
)

// add adds the state in a finish.
func (s lastStates) add(to *state.Spool, f *state.Finish) error {
	if s == nil || len(f.State) == 0 {
		return nil
	}
	s[f.Link.PageKey()]++
	return to.Add(state.Visited, inFinish, state.AppendVisited(nil, f.Link.AsLink(), f.State))
}

// addAgain adds that a URL is visited again as if it were new. Its states before are not the last.
func (s lastStates) addAgain(to *state.Spool, l link.Link) error {
	if s == nil {
		return nil
	}
	s[l.PageKey()]++
	return to.Add(state.Again, 0, l.AppendTo(nil))
}

// addTold adds a Told. With an empty state, another agent has the last state.
func (s lastStates) addTold(to *state.Spool, p []byte) error {
	if s == nil {
		return nil
	}
	l, planned, err := state.DecodeTold(p)
	if err != nil {
		return err
	}
	s[l.PageKey()]++
	if len(planned) == 0 {
		return to.Add(state.Again, 0, p)
	}
	return to.Add(state.Visited, inFinish, p)
}

// last reads what was added. If a state is not the last of its URL, last returns none.
func (s lastStates) last(kind byte, number uint64, p []byte) (l link.Link, planned []byte, err error) {
	if kind == state.Again {
		if l, _, err = link.Peek(p); err == nil {
			s[l.PageKey()]--
		}
		return l, nil, err
	}
	if l, planned, err = state.DecodeVisited(p); err != nil {
		return l, nil, err
	}
	k := l.PageKey()
	left, replaced := s[k]
	if number == inFinish {
		left--
		s[k] = left
		replaced = left > 0
	}
	if replaced {
		return l, nil, nil
	}
	return l, planned, nil
}

// states returns an empty lastStates, or nil without a Planner.
func (c *Crawler) states() lastStates {
	if c.planner == nil {
		return nil
	}
	return lastStates{}
}

// restoreState gives a Planner its state of a URL back. The last run may have ended during a
// request to the host, which the journal does not tell: touch sets the host's delay.
func (c *Crawler) restoreState(l link.Link, state []byte, now time.Time,
	touch func(host string, delay time.Duration)) error {
	c.remembered++
	touch(l.URL.Host(), c.Robots.Ask(l.URL, now).Delay)
	if err := c.planner.Restore(l, state); err != nil {
		return fmt.Errorf("strategy: %s: %w", l.URL, err)
	}
	return nil
}
