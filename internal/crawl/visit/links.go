package visit

import (
	"github.com/orbweaver/orbweaver/internal/web/link"
)

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
// returns an error.
func (ls *Links) TakeForeign(fn func(enc []byte) error) error {
	own := ls.Found[:0]
	for _, f := range ls.Found {
		if !f.Foreign {
			own = append(own, f)
		} else if err := fn(ls.Encoded[f.From:f.To]); err != nil {
			return err
		}
	}
	ls.Found = own
	return nil
}

// EachOwn passes the links that this agent crawls to fn.
func (ls *Links) EachOwn(fn func(k link.Key, enc []byte)) {
	for _, f := range ls.Found {
		if !f.Foreign {
			fn(f.Key, ls.Encoded[f.From:f.To])
		}
	}
}
