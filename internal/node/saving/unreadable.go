package saving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// The bucket may have been damaged, or have objects of another program at the places of saved states. Such a state is
// no reason to wait: an event names it, and the crawl goes on without it.

var (
	errNote      = errors.New("its note is not one that this program writes")
	errNoPointer = errors.New("there are objects, and none of them is current.json")
)

// adoptTries is how often an agent tries to adopt a state whose objects are damaged or missing. The claim of the first
// try mends what a kill has left.
const adoptTries = 3

// isUnreadable reports that an error is about the objects of a state, and not about the store.
func isUnreadable(err error) bool {
	return errors.Is(err, image.ErrNone) || errors.Is(err, image.ErrDamaged) || errors.Is(err, object.ErrNotFound) ||
		isForeign(err)
}

// isForeign reports that an error is about objects that no kill can have left.
func isForeign(err error) bool {
	return errors.Is(err, errNote) || errors.Is(err, errNoPointer) || errors.Is(err, object.ErrTooLarge) ||
		errors.Is(err, object.ErrKey)
}

// tryRead returns the newest state of an agent, and its note.
func (k *Keeper) tryRead(ctx context.Context, agent string) (v image.Saved, n note, err error) {
	p := k.place
	p.Prefix = k.prefix(agent)
	if v, err = image.Look(ctx, p); err != nil {
		return v, n, err
	}
	if err := json.Unmarshal(v.Note, &n); err != nil {
		return v, n, fmt.Errorf("%s: %w: %w", p.Store.Location(p.Prefix), errNote, err)
	}
	return v, n, nil
}

// giveUp says that an orphan cannot be read. It stays so until its agent saves a state.
func (o *Orphans) giveUp(name string, s *orphan, why error) {
	if s.unreadable {
		return
	}
	s.unreadable = true
	k := o.keeper
	o.tell("state-unreadable", report.F("agent", name), report.F("object", k.place.Store.Location(k.prefix(name))),
		report.F("error", why.Error()))
}
