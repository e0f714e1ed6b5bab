package frontier

import (
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// aside holds links that the caller has set aside, and knows the other Sides.
type aside struct {
	Side
	// review is the number of links that the caller must look at again. They are the first ones.
	review int64
	sides  []*Side // those with links, this one too
}

// SetAside keeps a link that Next has given out, and for which Done was called without Again. Like those of blocked
// hosts, it does not count as Pending. ReviewAside gives it back.
func (f *Frontier) SetAside(l link.Link, number uint64) error { return f.aside.Put(l, number) }

// ReviewAside makes all links that are now set aside count as Pending, until Reviewed has given them to the caller.
func (f *Frontier) ReviewAside() { f.aside.review = f.aside.Len() }

// Reviewed removes up to most of the links that ReviewAside has announced, and calls fn for each. fn may keep the link,
// and must call SetAside, PutBack or PushWithdrawn for it unless it is finished. done reports whether none are left.
func (f *Frontier) Reviewed(most int, fn func(l link.Link, number uint64) error) (done bool, err error) {
	a := &f.aside
	for ; most > 0 && a.review > 0 && f.err == nil; most-- {
		l, number, err := a.Take()
		if err != nil {
			break
		}
		a.review--
		if err := fn(l, number); err != nil {
			return false, err
		}
	}
	return a.review == 0, f.err
}

// PutBack queues a link again that was set aside or in a Side, behind the others of its host and level. It keeps its
// request number, so its host comes as early as before.
func (f *Frontier) PutBack(l link.Link, number uint64) error {
	if f.err != nil {
		return f.err
	}
	f.enc = l.AppendTo(f.enc[:0])
	f.hosts.insert(f.hosts.host(l.URL.Host()), f.cfg.rank(&l), number, f.enc)
	return f.overflow()
}
