package visit

import (
	"slices"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Follower decides about the links on a page: does the Strategy want it, is it known, is it in scope, and whose is
// it? Safe for concurrent use.
type Follower struct {
	cfg          *Config
	Scope        *scope.Scope
	Strategy     Strategy
	planner      Planner
	reader       Reader
	owners       Owners
	boundary     Boundary
	Applications Applications
	known        *known
}

// Follow asks the Strategy about a link on v's page, and judges, offers or drops it.
func (f *Follower) Follow(v *Attempt, l link.Link, k link.Key) {
	if v.App().Of != nil {
		f.followForApp(v, l, k)
		return
	}
	if f.reader != nil && f.isKnown(v, k) {
		return
	}
	if f.Strategy != nil {
		// The Strategy may change the link. It gets a copy in the visit: a parameter whose address
		// goes to an interface method would be moved to the heap for every link of every page.
		v.Plan().link = l
		choice := f.Strategy.Follow(&v.Page.Shown, &v.Plan().link)
		l = v.Plan().link
		switch choice {
		case Take:
			if f.isKnown(v, k) {
				return
			}
		case Offer:
			if f.planner != nil && f.Scope.Judge(l).In {
				v.Plan().Offered = append(v.Plan().Offered, l)
			}
			return
		default:
			return
		}
	}
	if f.staysHere(v, l) {
		return
	}
	if to, away := f.destination(v, k); away {
		l.SetDestination(to)
		k = k.To(to)
	}
	f.Judge(&v.Links, l, k)
}

// Judge checks a link against the scope, and adds or skips it. Safe for concurrent use.
func (f *Follower) Judge(ls *Links, l link.Link, k link.Key) {
	if l.Ext != "" {
		if app := l.App(); app != "" {
			f.judgeApp(ls, l, k, app)
			return
		}
	}
	if d := f.Scope.Judge(l); !d.In {
		ls.Skip(l, report.ReasonBy(string(d.Reason), d.Rule))
		return
	}
	f.add(ls, l, k)
}

// ForgetKnown makes the workers judge links again that were found lately: it forgets all keys of Pool.Know. Only the
// dispatcher calls it.
func (f *Follower) ForgetKnown() { f.known.forget() }

// owner returns the agent that crawls a host, see Owners.
func (f *Follower) owner(host string) (agent string, mine bool) {
	if f.owners == nil {
		return "", true
	}
	return f.owners.Owner(host)
}

// NotOurs reports whether u belongs to another agent, or has no known owner yet. Safe for
// concurrent use.
func (f *Follower) NotOurs(u weburl.URL) bool {
	_, mine := f.owner(u.Host())
	return !mine
}

// Links are links in scope, in the order in which they were found, and the links that were not taken.
// The zero Links is empty.
type Links struct {
	// The links in scope. enc holds their encodings.
	Found   []Found
	Encoded []byte
	Skipped []Skip
}

type Found struct {
	Key      link.Key
	From, To int // in Links.Encoded
	Foreign  bool
}

type Skip struct {
	Link   link.Link
	Reason string // see report.ReasonBy
}

// Reset empties ls and keeps its memory.
func (ls *Links) Reset() { *ls = Links{ls.Found[:0], ls.Encoded[:0], ls.Skipped[:0]} }

// Add adds a link that is in scope. foreign reports that another agent crawls it.
func (ls *Links) Add(l link.Link, k link.Key, foreign bool) {
	from := len(ls.Encoded)
	ls.Encoded = l.AppendTo(ls.Encoded)
	ls.Found = append(ls.Found, Found{k, from, len(ls.Encoded), foreign})
}

// AddOwn adds the encoding of a link that this agent crawls.
func (ls *Links) AddOwn(k link.Key, enc []byte) {
	from := len(ls.Encoded)
	ls.Encoded = append(ls.Encoded, enc...)
	ls.Found = append(ls.Found, Found{k, from, len(ls.Encoded), false})
}

// Skip adds a link that is not taken.
func (ls *Links) Skip(l link.Link, reason string) { ls.Skipped = append(ls.Skipped, Skip{l, reason}) }

// TakeForeign removes the links that other agents crawl. It passes their encodings to fn until fn
// returns an error. The links that fn has not taken stay.
func (ls *Links) TakeForeign(fn func(enc []byte) error) (err error) {
	ls.Found = slices.DeleteFunc(ls.Found, func(f Found) bool {
		if f.Foreign && err == nil {
			err = fn(ls.Encoded[f.From:f.To])
			return err == nil
		}
		return false
	})
	return err
}

// EachOwn passes the links that this agent crawls to fn.
func (ls *Links) EachOwn(fn func(k link.Key, enc []byte)) {
	for _, f := range ls.Found {
		if !f.Foreign {
			fn(f.Key, ls.Encoded[f.From:f.To])
		}
	}
}

// notALink is the reason to refuse a link that only this agent itself can have made.
const notALink = "notALink"

// JudgeSent is Judge for a link that another agent has sent; see link.Link.Sent. A link of an application that is not
// known here yet waits for it.
func (f *Follower) JudgeSent(ls *Links, l link.Link) {
	if l.URL.IsZero() || IsErrand(l) {
		ls.Skip(l, notALink)
		return
	}
	if l = l.Sent(); l.Ext != "" {
		if app := l.App(); app != "" && f.Applications.Of(app) == nil {
			f.add(ls, l, l.Key())
			return
		}
	}
	f.Judge(ls, l, l.Key())
}

// add adds a link that is in scope.
func (f *Follower) add(ls *Links, l link.Link, k link.Key) {
	_, directed := l.Destination()
	ls.Add(l, k, directed || f.NotOurs(l.URL))
}
