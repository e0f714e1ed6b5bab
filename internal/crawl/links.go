package crawl

import (
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Links are links in scope, in the order in which they were found, and the links that were not taken.
// The zero Links is empty.
type Links struct {
	// The links in scope. enc holds their encodings.
	found   []found
	enc     []byte
	skipped []skip
}

type found struct {
	key      link.Key
	from, to int // in Links.enc
	foreign  bool
}

type skip struct {
	link   link.Link
	reason string // see report.ReasonBy
}

// add adds a link that is in scope. foreign reports that another agent crawls it.
func (ls *Links) add(l link.Link, k link.Key, foreign bool) {
	from := len(ls.enc)
	ls.enc = l.AppendTo(ls.enc)
	ls.found = append(ls.found, found{k, from, len(ls.enc), foreign})
}

// AddOwn adds the encoding of a link that this agent crawls.
func (ls *Links) AddOwn(k link.Key, enc []byte) {
	from := len(ls.enc)
	ls.enc = append(ls.enc, enc...)
	ls.found = append(ls.found, found{k, from, len(ls.enc), false})
}

// Skip adds a link that is not taken.
func (ls *Links) Skip(l link.Link, reason string) { ls.skipped = append(ls.skipped, skip{l, reason}) }

// TakeForeign removes the links that other agents crawl. It passes their encodings to fn until fn
// returns an error.
func (ls *Links) TakeForeign(fn func(enc []byte) error) error {
	own := ls.found[:0]
	for _, f := range ls.found {
		if !f.foreign {
			own = append(own, f)
		} else if err := fn(ls.enc[f.from:f.to]); err != nil {
			return err
		}
	}
	ls.found = own
	return nil
}

// EachOwn passes the links that this agent crawls to fn.
func (ls *Links) EachOwn(fn func(k link.Key, enc []byte)) {
	for _, f := range ls.found {
		if !f.foreign {
			fn(f.key, ls.enc[f.from:f.to])
		}
	}
}
