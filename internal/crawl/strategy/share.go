package strategy

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Share implements visit.Sharer. Its tasks are the walkers.
func (w *Walk) Share(mine func(task string) bool) {
	lost := false
	for i := range w.walkers {
		p := &w.walkers[i]
		switch is := mine(fmt.Sprintf("walker-%d.invalid", i)); {
		case is && !p.mine:
			w.begin(i)
		case !is && p.mine:
			p.mine, lost = false, true
		}
	}
	for k := range w.waiting {
		w.goOn(k)
	}
	if lost {
		w.beginAgain()
	}
}

// beginAgain starts the walkers of this agent again, because the pages also count the visits of
// walkers that another agent drives now.
func (w *Walk) beginAgain() {
	for _, s := range w.pages {
		s.visits = 0
	}
	w.ready = w.ready[:0]
	for i := range w.walkers {
		if w.walkers[i].mine {
			w.begin(i)
		}
	}
}

// Recall implements visit.Sharer. It also knows pages of other agents.
func (w *Walk) Recall(u weburl.URL) (l link.Link, state []byte, err error) {
	s := w.pages[link.KeyOf(u)]
	if s == nil || s.at == unknownStop {
		return l, nil, nil
	}
	return w.read(s.at)
}

// Told implements visit.Sharer. From a page that no agent knows, walkers jump.
func (w *Walk) Told(l link.Link, state []byte) error {
	if state != nil {
		return w.Restore(l, state)
	}
	k := link.KeyOf(l.URL)
	if w.pages[k] == nil {
		w.pages[k] = &stop{at: unknownStop}
		w.goOn(k)
	}
	return nil
}
